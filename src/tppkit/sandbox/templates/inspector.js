"use strict";
{
  const { events, newest } = document.currentScript.dataset;
  const [rows, news, pause] = ["rows", "news", "pause"].map((id) => document.getElementById(id));
  let last = newest, source = null, arrived = 0;
  const say = (text) => { news.textContent = text; };
  const follow = () => {
    source = new EventSource(events + last);
    source.onmessage = (event) => {
      last = event.lastEventId;
      rows.insertAdjacentHTML("afterbegin", event.data);
      while (rows.rows.length > 200) rows.deleteRow(-1);
      arrived += 1;
    };
    source.onerror = () => source.readyState === EventSource.CLOSED && say("No longer live. Reload the page to see the latest.");
  };
  const rest = () => source.close();
  pause.hidden = false;
  pause.addEventListener("click", () => {
    const resumes = pause.textContent === "Resume";
    pause.textContent = resumes ? "Pause" : "Resume";
    say(resumes ? "Requests appear as they arrive." : "Paused.");
    (resumes ? follow : rest)();
  });
  // A browser has few connections to a host, and a hidden page needs none.
  document.addEventListener("visibilitychange", () => {
    if (pause.textContent === "Pause") (document.visibilityState === "visible" ? follow : rest)();
  });
  // Screen readers announce this text, so it changes rarely.
  setInterval(() => {
    if (arrived) say(`${arrived} more at ${new Date().toLocaleTimeString()}.`);
    arrived = 0;
  }, 10000);
  say("Requests appear as they arrive.");
  follow();
}
