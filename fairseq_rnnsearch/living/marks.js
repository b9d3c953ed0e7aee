"use strict";
/*
 * Tokens without the marks of tokenizers, for the engine and the page.
 *
 * JOINER joins a token to its neighbour (text/reversible.py); "@@" ends a piece of a word that
 * continues.
 */
const JOINER = "\uffed";
const JOINERS = new RegExp(`^${JOINER}+|${JOINER}+$`, "gu");

/** Return a word without its joiners. */
const shown = (word) => word.replace(JOINERS, "");

/** Return a token without its joiners; `mark` stands for the continuation mark of a piece. */
const shownPiece = (token, { hasPieces }, mark = "") =>
  shown(hasPieces ? token.replace(/@@$/, mark) : token);
