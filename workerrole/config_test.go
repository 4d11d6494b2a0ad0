package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// The log shows at the start what is in force, and no secret.
func TestConfigurationIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	const key, token = "bm90IGEga2V5IGJ1dCBhIHNlY3JldA==", "nobody-may-read-this-token"
	env := map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": "AccountName=films;AccountKey=" + key, "CUTROOM_PREFIX": "stage2", "CUTROOM_TRY_TIMEOUT": "7s",
		"WORKERROLE_ADMIN_TOKEN": token, "CUTROOM_VISIBILITY": "finish=77s", "WORKERROLE_DRAIN_TIMEOUT": "19s",
	}
	cfg, err := loadConfig(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: azstorage.RedactAttr})).Info("configuration", "config", cfg)
	for _, secret := range []string{key, token} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the log has %s:\n%s", secret, &out)
		}
	}
	for _, want := range []string{
		"config.storage.blobs=https://films.blob.core.windows.net", "config.storage.prefix=stage2", "TryTimeout:7s",
		"config.token=true", "finish=1m17s", "config.drainTimeout=19s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &out)
		}
	}
}
