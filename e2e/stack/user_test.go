package stack_test

import (
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
)

type testUser struct {
	*journey.User
	t *testing.T
}

func newUser(t *testing.T, base string) testUser {
	t.Helper()
	u, err := journey.New(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return testUser{u, t}
}

func (u testUser) announce(title string) string {
	u.t.Helper()
	v, err := u.Announce(u.t.Context(), client.NewVideo{Title: title})
	if err != nil {
		u.t.Fatal(err)
	}
	return v.Id
}

func (u testUser) knows(id string) bool {
	u.t.Helper()
	_, err := u.Video(u.t.Context(), id)
	if err != nil && journey.Code(err) != "not_found" && journey.Code(err) != "video_not_found" {
		u.t.Fatal(err)
	}
	return err == nil
}
