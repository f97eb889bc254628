package main

import "github.com/gvbll/gvbll/pipeline"

// rescoreFlags say when nodes are predicted again.
type rescoreFlags struct {
	After      int     `help:"Predict a node again when so many edges came to it since, until its label comes; published as a revision. 0 for never." default:"0" name:"rescore-after"`
	Confidence float64 `help:"Publish that only when the confidence crosses this probability, either way; 0 for always. Alone, nodes are predicted again at every edge." default:"0" name:"rescore-confidence"`
	Limit      int     `help:"How many nodes a window predicts again at most." default:"100" name:"rescore-limit"`
}

// into sets what the flags say, checked.
func (f rescoreFlags) into(cfg *pipeline.Config) (err error) {
	cfg.Rescore = pipeline.Rescoring{After: f.After, Confidence: f.Confidence, Limit: f.Limit}
	if *cfg, err = cfg.WithDefaults(); err != nil {
		return usageError{err}
	}
	if f.Limit < 1 {
		return usagef("--rescore-limit %d: give at least 1, and --rescore-after 0 for never", f.Limit)
	}
	return nil
}
