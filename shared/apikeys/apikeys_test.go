package apikeys

import (
	"errors"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// TestKeysAreFoundByTheirText: a key is found with all of its text, and no row has it.
func TestKeysAreFoundByTheirText(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), nil, nil, []string{Table}); err != nil {
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
		id, ok := idOf(text)
		if ok && (len(id) != idLength || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" || !strings.HasPrefix(text, Lead+id+"_")) {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}
