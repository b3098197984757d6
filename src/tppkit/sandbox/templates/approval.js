"use strict";
{
  const { state, next, outcome, leaves } = document.currentScript.dataset;
  const leave = () => {
    location.replace(next);
    // An application's address that no application opens leaves the browser here.
    if (leaves === "app") setTimeout(() => location.replace(outcome), 2000);
  };
  let timer = setTimeout(look, 3000);
  async function look() {
    let open = true;
    if (document.visibilityState === "visible") {
      try {
        open = (await (await fetch(state, { cache: "no-store" })).json()).open !== false;
      } catch { /* the bank cannot answer now */ }
    }
    if (timer === null) return;
    if (!open) return leave();
    timer = setTimeout(look, 3000);
  }
  document.addEventListener("submit", (event) => {
    if (timer === null) return event.preventDefault();
    clearTimeout(timer);
    timer = null;
    if (leaves === "app") setTimeout(() => location.replace(outcome), 2000);
  });
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}
