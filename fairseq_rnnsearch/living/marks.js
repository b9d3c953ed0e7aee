"use strict";
/*
 * Tokens as people see them, without the marks of tokenisers; for the engine and for the page.
 *
 * JOINER joins a token to its neighbour (text/reversible.py), "@@" ends a piece that goes on.
 */
const JOINER = "\uffed";
const JOINERS = new RegExp(`^${JOINER}+|${JOINER}+$`, "gu");

/** Return a word without its joiners. */
const shown = (word) => word.replace(JOINERS, "");

/** Return a piece of a word without its joiners and the mark that it goes on. */
const shownPiece = (piece) => shown(piece.replace(/@@$/, ""));
