// Package keys makes API keys, revokes them, and knows callers by them.
package keys

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/visible"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct{ keys *apikeys.Store }

// New returns the feature.
func New(account *azstore.Account) web.Feature {
	s := &server{apikeys.New(account)}
	f := feature(s)
	f.Tables, f.Keys = []string{apikeys.Table}, s.find
	f.Problems = []problem.Answer{problem.When(apikeys.ErrNotFound, problem.NotFound, "There is no such key.")}
	return f
}

func (s *server) find(ctx context.Context, text string) (access.Identity, error) {
	key, err := s.keys.Find(ctx, text)
	if errors.Is(err, apikeys.ErrNotFound) {
		err = access.ErrUnknown
	}
	return access.Identity{Owner: key.Owner, Role: access.Role(key.Role), Key: key.ID}, err
}

// CreateKey implements POST /ops/keys. The text of the key is a secret: it is in the
// answer, and nowhere else.
func (s *server) CreateKey(c *gin.Context) {
	web.Handle(c, http.StatusCreated, func(ctx context.Context) (out api.MadeKey, _ error) {
		body, err := web.ReadJSON[api.NewKey](c)
		if err != nil {
			return out, err
		}
		if !visible.Is(body.Name, "") {
			return out, web.Invisible("name")
		}
		made, text, err := s.keys.Create(ctx, apikeys.Key{Name: body.Name, Owner: body.Owner, Role: string(body.Role)})
		if err != nil {
			return out, err
		}
		c.Header("Location", web.Base+"/ops/keys/"+made.ID) // for the audit trail, too
		return api.MadeKey{Key: made, Text: text}, nil
	})
}

// ListKeys implements GET /ops/keys.
func (s *server) ListKeys(c *gin.Context, params api.ListKeysParams) {
	found, next, err := s.keys.List(c.Request.Context(), params.Limit, params.PageToken)
	web.Reply(c, http.StatusOK, api.KeyList{Items: web.List(found), NextPageToken: api.Some(next)}, err)
}

// RevokeKey implements DELETE /ops/keys/{keyId}.
func (s *server) RevokeKey(c *gin.Context, keyID string) {
	web.Reply(c, http.StatusNoContent, nil, s.keys.Revoke(c.Request.Context(), keyID))
}
