// Package draw makes the project's pictures, as SVG and PNG: curves over the
// stream, reliability diagrams, comparisons of systems.
//
// A [Picture] is a pure function of the values it was made of: no file, clock or
// chance, and the same values give the same bytes. What is wrong with the values
// is said when it is rendered.
//
// A name keeps its colour in all panels of a picture. The colours are those of
// Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can
// tell apart. Legends stand above the data, never on it.
package plot
