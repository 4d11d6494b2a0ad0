package apikeys

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// TestKeysAreFoundByTheirText: a key is found with all of its text, and no row has it.
func TestKeysAreFoundByTheirText(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{Table}}); err != nil {
		t.Fatal(err)
	}
	s := New(a)
	made, text, err := s.Create(t.Context(), Key{Name: "a program", Owner: "studio", Role: "viewer"})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Find(t.Context(), text); err != nil || found != made {
		t.Errorf("found %+v, %v; want %+v", found, err, made)
	}
	row, err := s.table.Get(t.Context(), made.ID, rowKey)
	if err != nil {
		t.Fatal(err)
	}
	secret := text[strings.LastIndex(text, "_")+1:]
	for name, value := range row.Props {
		if said, ok := value.(string); ok && strings.Contains(said, secret) {
			t.Errorf("property %s has the secret", name)
		}
	}
	other := text[:len(text)-1] + string('a'+(text[len(text)-1]-'a'+1)%26)
	if _, err := s.Find(t.Context(), other); !errors.Is(err, ErrNotFound) {
		t.Errorf("with another last letter: %v, want ErrNotFound", err)
	}
	if err := s.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), text); !errors.Is(err, ErrNotFound) {
		t.Errorf("after it was revoked: %v, want ErrNotFound", err)
	}
	if all, next, err := s.List(t.Context(), 10, ""); err != nil || next != "" || len(all) != 1 || all[0].RevokedAt.IsZero() || all[0].Name != "a program" {
		t.Errorf("listed %+v, %q, %v", all, next, err)
	}
}

// FuzzIDOf: whatever is shown as a key, what is looked for is a valid PartitionKey.
func FuzzIDOf(f *testing.F) {
	f.Add("key_q6h4zt2mwc5a_abcdefghijklmnopqrstuvwxyz")
	f.Add("key_q6h4zt2mwc5a_")
	f.Add("key__")
	f.Add("key_'or RowKey ne'_abcdefghijklmnopqrstuvwxyz")
	f.Fuzz(func(t *testing.T, text string) {
		parts := keyForm.FindStringSubmatch(text)
		if parts == nil {
			return
		}
		if id := parts[1]; len(id) != 12 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" || !strings.HasPrefix(text, Lead+id+"_") {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}

// TestSessionsEnd: a session that was signed out of stays so until its cookie would have
// ended, is no key in the list, and is then forgotten.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{Table}}); err != nil {
		t.Fatal(err)
	}
	s, now := New(a), time.Now()
	made, _, err := s.Create(t.Context(), Key{Name: "a program", Owner: "studio", Role: "viewer"})
	if err != nil {
		t.Fatal(err)
	}
	for session, left := range map[string]time.Duration{"OVER": -time.Minute, "LIVE": time.Hour} {
		if err := s.SignOut(t.Context(), session, now.Add(left)); err != nil {
			t.Fatal(err)
		}
	}
	if keys, _, err := s.List(t.Context(), 10, ""); err != nil || len(keys) != 1 || keys[0] != made {
		t.Errorf("keys %+v, %v; want %+v alone", keys, err, made)
	}
	if n, err := s.ForgetSessions(t.Context(), now); err != nil || n != 1 {
		t.Errorf("%d sessions forgotten, %v; want 1", n, err)
	}
	for session, want := range map[string]bool{"OVER": false, "LIVE": true, "NEVER": false} {
		if over, err := s.SignedOut(t.Context(), session); err != nil || over != want {
			t.Errorf("session %s has ended: %v, %v; want %v", session, over, err, want)
		}
	}
}
