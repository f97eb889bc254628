package main

import (
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/model"
)

type inspectCmd struct {
	Model string `arg:"" help:"Model file, from 'gvbll train'." type:"path" placeholder:"FILE"`

	JSON bool `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll inspect --help.
func (inspectCmd) Help() string {
	return "Prints its encoder, its classes, how it was trained, and what it serves with."
}

// Run prints the contents of the file.
func (c inspectCmd) Run(p flags.Process) error {
	m, err := model.Open(c.Model)
	if err != nil {
		return err
	}
	v := look.Inspect(m)
	if c.JSON {
		return flags.PrintJSON(p.Out, v)
	}
	return v.Print(p.Out)
}
