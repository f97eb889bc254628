package snapshots

import (
	"errors"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// ErrDamaged is wrapped by the error for a file that is not a snapshot or was changed.
var ErrDamaged = safetensors.ErrDamaged

// ErrNotThere is wrapped by the error for an undamaged snapshot that does not have one
// of the models.
var ErrNotThere = errors.New("not in the snapshot")

// Restore sets the state of x, which is new, to that in file.
func Restore(x saved, file *safetensors.Reader, own string) error {
	for _, str := range x.Strings() {
		text, ok := file.Metadata()[own+str.key]
		if !ok {
			return snapshot.Damaged("it has no string %q", own+str.key)
		}
		if err := str.set(text); err != nil {
			return err
		}
	}
	s := snapshot.Restoring(file)
	x.State(s)
	return s.Finish()
}

// Meta returns the strings without those of engines.
func Meta(all map[string]string) map[string]string {
	meta := map[string]string{}
	for key, value := range all {
		if !strings.HasPrefix(key, Own) {
			meta[key] = value
		}
	}
	return meta
}
