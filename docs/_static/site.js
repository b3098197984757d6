// What the theme lacks for keyboards and screen readers, and search while typing, in MiniSearch over the rows of the site. Both load as scripts when the field gets the focus, so that pages
// opened from disk can search too. Enter without a chosen entry opens the results page of Sphinx.
"use strict";
addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("pre")) if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = "2";
  document.querySelector(".sidebar-drawer").ariaLabel = "Pages";

  const root = document.documentElement.dataset.content_root;
  const field = document.querySelector(".sidebar-search");
  const list = Object.assign(document.createElement("ol"), { className: "found", hidden: true });
  list.setAttribute("aria-label", "Search results");
  field.autocomplete = "off";
  field.form.after(list);
  const words = new Set("a an and are as at be by can do does for from how i in is it my of on or that the this to was what when which with".split(" "));
  const load = (name) => new Promise((done) => {
    document.head.append(Object.assign(document.createElement("script"), { src: `${root}_static/${name}`, onload: done }));
  });
  const versions = document.querySelector(".versions");
  load("../../versions.js").then(() => {  // beside the folder of this version; a page without it shows its own version only
    for (const name of siteVersions) if (name !== versions.dataset.shown) {
      versions.append(" ", Object.assign(document.createElement("a"), { href: `${root}../${name}/index.html`, textContent: name }));
    }
  });
  const parts = (word) => [...new Set([word, ...(word.match(/[\p{L}\p{N}]+/gu) ?? [])])];  // digest.mismatch: also digest, and mismatch
  const weigh = (url) => (/\/api\/|#assumption-|#code-/.test(url) ? 0.1 : url.startsWith("reference/") ? 0.4 : url.startsWith("tutorials/") ? 0.5 : 1);
  let index;
  const makeIndex = async () => {
    await Promise.all([load("minisearch.js"), load("search-rows.js")]);
    const made = new MiniSearch({
      fields: ["title", "page", "text"],
      storeFields: ["url", "title", "page", "weight"],
      tokenize: (text) => text.match(/[\p{L}\p{N}#_.-]+/gu)?.flatMap(parts) ?? [],
      processTerm: (term) => (words.has(term.toLowerCase()) ? null : term.toLowerCase()),
      searchOptions: {
        boost: { title: 6, page: 2 }, prefix: true, fuzzy: (term) => (term.length > 4 ? 0.2 : 0),
        boostDocument: (id, term, row) => row.weight,
      },
    });
    made.addAll(searchRows.map(([url, title, page, text], id) => ({ id, url, title, page, text, weight: weigh(url) })));
    return made;
  };
  const show = async () => {
    const made = await (index ??= makeIndex());
    const asked = field.value;
    const all = made.search(asked, { combineWith: "AND" });
    const named = all.filter(({ title }) => title.toLowerCase() === asked.trim().toLowerCase());
    const ranked = [...named, ...all, ...made.search(asked)];  // what has this name, what has every word, the rest
    const found = [...new Map(ranked.map((row) => [row.id, row])).values()].slice(0, 10);
    list.replaceChildren(...found.map(({ url, title, page }) => {
      const link = Object.assign(document.createElement("a"), { href: root + url, textContent: title });
      if (page !== title) link.append(Object.assign(document.createElement("small"), { textContent: page }));
      return document.createElement("li").appendChild(link).parentNode;
    }));
    list.hidden = !found.length;
    list.dataset.of = asked;
    list.style.top = `${field.getBoundingClientRect().bottom + 4}px`;
  };
  field.addEventListener("focus", () => { index ??= makeIndex(); });
  field.addEventListener("input", show);
  addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); field.focus(); }
    if (event.key === "Escape") list.hidden = true;
    if (list.hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    (links[at + (event.key === "ArrowDown" ? 1 : -1)] ?? field).focus();
  });
  addEventListener("click", (event) => { list.hidden ||= !event.target.closest(".found, .sidebar-search"); });
});
