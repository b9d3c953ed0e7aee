"use strict";
/*
 * Tokens without the marks of tokenizers, for the engine and the page.
 *
 * JOINER joins a token to its neighbour, and CAPITAL and CAPITALS mark case (text/reversible.py); "@@"
 * ends a piece of a word that continues.
 */
const JOINER = "\uffed", ESCAPE = "\uff05", CAPITAL = `${ESCAPE}\u21e7`, CAPITALS = `${ESCAPE}\u21ea`;
const CASED = new RegExp(`${CAPITALS}(\\S*)|${CAPITAL}${JOINER}?(\\S?)`, "gu");
const JOINERS = new RegExp(`^${JOINER}+|${JOINER}+$`, "gu");

/** Return the capital of a letter that has one, and only this. */
function upperOf(letter) {
  const upper = letter.toUpperCase();
  return Array.from(upper).length === 1 && upper.toLowerCase() === letter ? upper : letter;
}

/** Return a word with its capitals, and without its joiners. */
const shown = (word) => word.replace(JOINERS, "").replace(CASED,
  (_, all, one) => Array.from(all ?? one ?? "", upperOf).join(""));

/** Return a token without its joiners; `mark` stands for the continuation mark of a piece. */
function shownPiece(token, { hasPieces }, mark = "") {
  const piece = hasPieces ? token.replace(/@@$/, "") : token, continued = piece !== token ? mark : "";
  return (shown(piece) || piece.replace(ESCAPE, "")) + continued;
}
