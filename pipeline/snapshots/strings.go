package snapshots

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// snapshotFormat changes whenever the format of snapshots changes.
const snapshotFormat = "1"

// Own begins the keys of an engine's strings in a snapshot; others are the
// caller's. metaModel is the key of the model's ID after it.
const (
	Own   = "gvbll."
	Model = "model"
)

// String is a string of a snapshot that identifies the engine or its progress.
type String struct {
	key  string // after metaOwn
	text string // of this engine now
	set  func(text string) error
}

// Strings returns the strings of an engine, or a part of one. Setting one that must not
// differ returns an error with the remedy if it does.
func Strings(settings event.Settings, id string, next *int64, chain, heads *event.Hash) []String {
	return []String{
		fixed("format", snapshotFormat, "restore it with the gvbll that wrote it"),
		{"engine", string(settings), func(got string) error { return sameSettings(event.Settings(got), settings) }},
		fixed(Model, id, "give the model it was taken with"),
		{"window", strconv.FormatInt(*next, 10), func(text string) (err error) {
			if *next, err = strconv.ParseInt(text, 10, 64); err != nil || *next < 0 {
				return snapshot.Damaged("window %q", text)
			}
			return nil
		}},
		hashString("chain", chain),
		hashString("posterior", heads),
	}
}

// fixed is a string that must not differ.
func fixed(key, text, remedy string) String {
	return String{key, text, func(got string) error {
		if got != text {
			return fmt.Errorf("it is of %s %s, this is %s: %s, or start without the snapshot", key, got, text, remedy)
		}
		return nil
	}}
}

func hashString(key string, x *event.Hash) String {
	return String{key, x.Hex(), func(text string) error {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(x) {
			return snapshot.Damaged("%s %q", key, text)
		}
		copy(x[:], b)
		return nil
	}}
}

// sameSettings returns an error unless a snapshot's settings are those of the engine. The
// error names each setting that differs, with both values, and a remedy.
func sameSettings(there, here event.Settings) error {
	if there == here {
		return nil
	}
	if _, err := there.Values(); err != nil {
		return fmt.Errorf("its settings are not a JSON object (%w): start without the snapshot", err)
	}
	differ := event.Diff(there, here)
	remedy := "give the settings it was taken with"
	if len(differ) == 0 || slices.ContainsFunc(differ, func(d event.Difference) bool { return d.Name == "engine" }) {
		remedy = "restore it with the program that wrote it"
	}
	if len(differ) == 0 {
		return fmt.Errorf("it holds its settings in another form: %s, or start without the snapshot", remedy)
	}
	return fmt.Errorf("it was taken with other settings: %s; %s, or start without the snapshot", event.Describe(differ), remedy)
}
