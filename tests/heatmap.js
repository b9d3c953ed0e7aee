// Draws what a page of alignments draws, in Node: node heatmap.js PAGE < looks > pictures
// A line of the input is what `Heatmap.set` takes; a line of the output has, for each sentence of
// the page, the SVG, the Pharaoh line and its best links as the living page finds them.
"use strict";
const fs = require("fs"), readline = require("readline"), vm = require("vm");

const page = fs.readFileSync(process.argv[2], "utf-8");
const data = JSON.parse(page.split('id="data">')[1].split("</script>")[0]);
const script = page.split("<script>")[1].split("\nconst at = ")[0]; // what follows needs a browser
vm.runInThisContext(`${script}; Object.assign(globalThis, { Heatmap, bestLinks, decoded, grey });`);

// Stands for every element: it has each property and method, and no children.
const element = new Proxy(() => {}, {
  apply: () => element,
  get: (_, name) => ({
    [Symbol.iterator]: () => [][Symbol.iterator](), [Symbol.toPrimitive]: () => 1,
  })[name] ?? element,
});
Object.assign(globalThis, { document: element, innerHeight: 1000 });

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const drawn = data.sentences.map((stored) => {
    const view = new Heatmap(element), sentence = decoded(stored, data);
    view.show(sentence);
    view.set(JSON.parse(line));
    const svg = view.draw("#000", "#fff").text;
    return { svg, pharaoh: view.pharaoh(), links: bestLinks(sentence) };
  });
  const greys = Array.from({ length: data.steps + 1 }, (_, n) => grey(n / data.steps));
  process.stdout.write(`${JSON.stringify({ drawn, greys })}\n`);
});
