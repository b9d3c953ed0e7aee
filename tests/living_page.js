// Runs the engine of a living page in Node: node living_page.js PAGE < calls > answers
// A line of the input is [function, arguments...]; a line of the output is its answer.
"use strict";
const fs = require("fs"), readline = require("readline"), vm = require("vm");

const page = fs.readFileSync(process.argv[2], "utf-8");
const script = (id) => page.split(`id="${id}">`)[1].split("</script>")[0];
vm.runInThisContext(`${script("engine")}; Object.assign(globalThis,
  { Engine, PlainText, doubtOf, linksOf, putBack, wordsIn });`);
const engine = new Engine(JSON.parse(script("stored")));
// what is not behind a call of the page
engine.tokens_of = (side, text) => engine[`${side}Text`].tokens(text);
engine.text_of = (side, tokens) => engine[`${side}Text`].text(tokens);
const made = {};
const by = (rules, n) =>
  made[n] ??= new PlainText(JSON.parse(fs.readFileSync(rules, "utf-8"))[n]);
engine.tokens_by = (rules, n, sentence) => by(rules, n).tokens(sentence);
engine.text_by = (rules, n, tokens) => by(rules, n).text(tokens);
engine.doubt_of = (...given) => doubtOf(...given, engine.doubt);
engine.put_back = (line, target, source, found, weights) => {
  const taken = engine.takenOut(line), [words, ofSource] = [wordsIn(target), wordsIn(taken.text)];
  const links = linksOf(words, ofSource, { source, target: found, weights });
  const parts = putBack(taken, { ofSource, target, words, links });
  return [taken.text, parts.map(({ text }) => text).join("")];
};
engine.timed = (text, options) => {
  const start = performance.now();
  const { text: found } = engine.translate(text, options);
  return [performance.now() - start, found];
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [call, ...given] = JSON.parse(line);
    let answer;
    try {
      answer = { value: await engine[call](...given) };
    } catch (error) {
      answer = { error: error.message };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
})();
