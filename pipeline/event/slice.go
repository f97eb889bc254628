package event

// DegreeSlices are the slices of the graph by degree: the number of neighbours that
// arrived before a node. Each slice ends where the next begins. Metrics and the scores in the
// ledger use the same slices.
var DegreeSlices = [...]struct {
	Name string
	From int // least degree
}{{"0", 0}, {"1-3", 1}, {"4-15", 4}, {"16+", 16}}

// DegreeSlice returns the index in DegreeSlices of a degree's slice.
func DegreeSlice(degree int) int {
	i := len(DegreeSlices) - 1
	for degree < DegreeSlices[i].From {
		i--
	}
	return i
}
