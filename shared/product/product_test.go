package product

import (
	"strings"
	"testing"
)

func TestOldSettingsAreRefused(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "OLD_PREFIX=a", "NEW_PREFIX=b", "VERY_OLD_PREFIX=c", "OLDER_PREFIX=d", "OLD_TRY_TIMEOUT="}
	err := checkSettings(environ, "old", "new")
	if err == nil {
		t.Fatal("old settings are accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "set NEW_PREFIX instead") || !strings.Contains(lines[1], "set NEW_TRY_TIMEOUT instead") {
		t.Errorf("the error is\n%v", err)
	}
	if err := checkSettings(environ, "old", "old"); err != nil {
		t.Errorf("a product that was never renamed refuses its own settings: %v", err)
	}
	if err := CheckSettings([]string{strings.ToUpper(Name) + "_PREFIX=a"}); err != nil {
		t.Errorf("a setting of today's name is refused: %v", err)
	}
}
