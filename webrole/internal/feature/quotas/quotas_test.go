package quotas

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/settings"
)

// Without a setting, quotas hold for owners with keys, and not for who comes over
// loopback or with the token; with one, for everybody.
func TestQuotaOfTheBuiltInOwner(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"", "7"} {
		env := settings.Reader{Getenv: func(name string) string {
			if strings.HasPrefix(name, "WEBROLE_QUOTA_") {
				return set
			}
			return ""
		}}
		limits := limitsOf(&env)
		if err := env.Err(); err != nil {
			t.Fatal(err)
		}
		everybody, local := limits.Owner, limits.Local
		if set == "" && (local.StoredBytes+local.Waiting+local.Minutes+local.Clips != 0 || everybody.StoredBytes*everybody.Waiting*everybody.Minutes*everybody.Clips == 0) {
			t.Errorf("unset: %+v, %+v", everybody, local)
		}
		if set != "" && (local != everybody || local.StoredBytes != 7<<30 || local.Clips != 7) {
			t.Errorf("set: %+v, %+v", everybody, local)
		}
	}
}
