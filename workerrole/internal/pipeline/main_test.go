package pipeline_test

import (
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) {
	workflow.Declaration.Steps = append(workflow.Declaration.Steps, merged...)
	azuritetest.Main(m)
}
