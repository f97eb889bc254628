// Package plot draws the project's pictures with gonum/plot, as SVG or PNG:
// curves over the stream, sweeps of a parameter, comparisons of systems, heat
// maps and reliability diagrams.
//
// A [Picture] is made by the function named after what it shows, and rendered by
// its SVG or PNG method. It depends on the values alone: no file, clock or
// randomness, and equal values give equal bytes. Invalid values are reported when
// the picture is rendered.
//
// All panels of a picture share one legend, to the right of them, and a name has
// the same colour in each. The colours are those of Okabe and Ito ("Color
// Universal Design", 2008), which colour-blind readers can tell apart.
package plot
