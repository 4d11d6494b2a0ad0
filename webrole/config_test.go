package main

import (
	"log/slog"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/settingstest"
)

func TestConfigurationIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	const token = "a-token-that-is-not-to-be-read"
	env := map[string]string{"WEBROLE_TOKEN": token, "WEBROLE_DRAIN_TIMEOUT": "19s"}
	settingstest.Logged(t, func(getenv func(string) string) (slog.LogValuer, error) { return loadConfig(getenv) }, env,
		token, "config.token=true", "config.drainTimeout=19s")
}
