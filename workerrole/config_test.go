package main

import (
	"errors"
	"log/slog"
	"math"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/settingstest"
)

func TestConfigurationIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	const token = "a-token-that-is-not-to-be-read"
	env := map[string]string{"WORKERROLE_ADMIN_TOKEN": token, "WORKERROLE_DRAIN_TIMEOUT": "19s"}
	settingstest.Logged(t, func(getenv func(string) string) (slog.LogValuer, error) { return loadConfig(getenv) }, env,
		token, "config.token=true", "config.drainTimeout=19s")
}

// A container with little memory gets fewer heavy slots than cores, but one.
func TestHeavySlotsFitTheMemory(t *testing.T) {
	t.Parallel()
	for limit, want := range map[uint64]int{
		0: math.MaxInt, 100 << 20: 1, 1 << 30: 1, 2 << 30: 2, 4 << 30: 4, 1 << 62: math.MaxInt32,
	} {
		if got := memorySlots(limit, nil); got != want {
			t.Errorf("%d MiB: %d slots, want %d", limit>>20, got, want)
		}
	}
	if got := memorySlots(1<<30, errors.New("no cgroup")); got != math.MaxInt {
		t.Errorf("without a limit: %d slots", got)
	}
}
