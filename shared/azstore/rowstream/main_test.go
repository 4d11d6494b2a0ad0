package rowstream_test

import (
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }
