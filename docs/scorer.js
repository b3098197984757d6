// Ranks the results page of Sphinx: a page or section whose title has the words of the query comes first.
var Scorer = {
  score: ([, title, , , score, , kind]) => {
    const words = new URLSearchParams(location.search).get("q").toLowerCase().match(/[\p{L}\d]{3,}/gu) || [];
    const inTitle = words.filter((word) => title.toLowerCase().includes(word)).length;
    return score + (kind === "object" ? 0 : 12 * inTitle);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
