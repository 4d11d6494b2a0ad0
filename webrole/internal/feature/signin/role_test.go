package signin

import (
	"testing"

	"github.com/cutroom/cutroom/webrole/internal/access"
)

// What the issuer says counts, also when it is less than the configured role.
func TestRoleIsTheIssuers(t *testing.T) {
	t.Parallel()
	s := &SignIn{config: OIDC{Role: access.Uploader}}
	for _, c := range []struct {
		claim any
		want  access.Role
	}{
		{nil, access.Uploader},
		{"baker", access.Uploader},
		{"viewer", access.Viewer},
		{[]any{"viewer", "operator", "uploader"}, access.Operator},
		{[]any{"baker", 7.0}, access.Uploader},
	} {
		if got := s.role(c.claim); got != c.want {
			t.Errorf("role(%v) = %s, want %s", c.claim, got, c.want)
		}
	}
}
