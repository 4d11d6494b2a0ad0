package main

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// What features say of tables that are too busy is "not now", with the time to come again.
func TestFeaturesSayWhen(t *testing.T) {
	t.Parallel()
	answers := web.Sum(start(t, nil).role.features).Problems
	for _, p := range parts {
		err := p.busy
		if err == nil {
			continue
		}
		w := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(w)
		c.Request = httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		problem.WithAnswers(answers)(c)
		problem.Abort(c, fmt.Errorf("wrapped: %w", err))
		if w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%v: %d with Retry-After %q", err, w.Code, w.Header().Get("Retry-After"))
		}
	}
}
