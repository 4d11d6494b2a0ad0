// Package settingstest tests what a role logs of its settings.
package settingstest

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Logged fails the test unless the log of a role's settings shows what is in
// force, each duration of the struct that load returns, and no secret. load reads the settings through getenv. The variables of
// env belong to the role; token is the value of one of them that is a secret.
func Logged(t *testing.T, load func(getenv func(string) string) (slog.LogValuer, error), env map[string]string, token string, want ...string) {
	t.Helper()
	const key = "bm90IGEga2V5IGJ1dCBhIHNlY3JldA=="
	shared := map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": "AccountName=films;AccountKey=" + key, "CUTROOM_PREFIX": "stage2", "CUTROOM_TRY_TIMEOUT": "7s",
		"CUTROOM_VISIBILITY": "finish=77s",
	}
	cfg, err := load(func(name string) string { return env[name] + shared[name] })
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: azstore.RedactAttr})).Info("configuration", "config", cfg)
	for _, secret := range []string{key, token} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the log has %s:\n%s", secret, &out)
		}
	}
	want = append(want, "config.storage.blobs=https://films.blob.core.windows.net", "config.storage.prefix=stage2", "TryTimeout:7s", "finish=1m17s")
	for i, value := 0, reflect.ValueOf(cfg); i < value.NumField(); i++ {
		if d := value.Field(i); d.Type() == reflect.TypeFor[time.Duration]() && d.Int() != 0 { // 0: for tests only
			want = append(want, "="+time.Duration(d.Int()).String())
		}
	}
	for _, text := range want {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the log lacks %s:\n%s", text, &out)
		}
	}
}
