package dataset

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen: whatever the files hold, Open returns an error or a data set whose
// parts fit each other.
func FuzzOpen(f *testing.F) {
	f.Add("4", "3", "0.5,1\n1,2\n0,0\n4,5\n", "0\n1\n0\n2\n", "0,1\n2,1\n3,3\n")
	f.Add("2\r\n", "0", "0,0,0,0,1\r\n0,0,0,0,0\r\n", "0\r\n1.0\r\n", "")
	f.Add("1", "1", "1e39\n", "65536\n", "0,0,0\n")
	f.Add("3", "1", "1,\n,1\n1\n", "\n\n\n", "-1,0\n")
	f.Add("1e2", "99999999999", "", "", ",")
	f.Fuzz(func(t *testing.T, nodes, edges, features, labels, edge string) {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"num-node-list.csv": nodes, "num-edge-list.csv": edges,
			"node-feat.csv": features, "node-label.csv": labels, "edge.csv": edge,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d, err := Open(dir)
		if err != nil {
			return
		}
		fits(t, d)
	})
}
