package snapshots_test

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { pipelinetest.Main(m) }
