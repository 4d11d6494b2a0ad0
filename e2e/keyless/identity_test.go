package keyless

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	audience = "https://storage.azure.com"
	issuer   = "https://sts.windows.net/00000000-0000-0000-0000-000000000001/"
	// grace is how much longer a token is taken than its bearer is told. The SDK
	// renews a token of hours minutes before its end; ours live for seconds.
	grace = time.Minute
)

// claims are those that Azurite and Azure read.
type claims struct {
	jwt.RegisteredClaims
	AppID    string `json:"appid"`
	ObjectID string `json:"oid"`
	TenantID string `json:"tid"`
}

// Identity is the endpoint at which the roles ask for tokens. It knows identities by
// their client id.
type Identity struct {
	life    time.Duration
	clients []string
	key     *rsa.PrivateKey
	header  string
	server  *http.Server
	url     string
	away    atomic.Bool
	tokens  atomic.Int64
	refused atomic.Int64
}

// StartIdentity opens the endpoint. life is that of a token, in whole seconds.
func StartIdentity(life time.Duration, clients ...string) (*Identity, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make a key for tokens: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the identity endpoint: %w", err)
	}
	i := &Identity{life: life, clients: clients, key: key, header: rand.Text(), url: "http://" + listener.Addr().String() + "/msi/token"}
	i.server = &http.Server{Handler: http.HandlerFunc(i.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = i.server.Serve(listener) }()
	return i, nil
}

// Close closes the endpoint.
func (i *Identity) Close() error { return i.server.Close() }

// Env is what a platform tells a container about its identity.
func (i *Identity) Env(client string) []string {
	return []string{
		"IDENTITY_ENDPOINT=" + i.url, "IDENTITY_HEADER=" + i.header,
		"AZURE_CLIENT_ID=" + client, "AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential",
	}
}

// SetAway says whether connections are broken without an answer.
func (i *Identity) SetAway(away bool) { i.away.Store(away) }

// Tokens is how many were given.
func (i *Identity) Tokens() int64 { return i.tokens.Load() }

// Refused is how many requests met a broken connection.
func (i *Identity) Refused() int64 { return i.refused.Load() }

// serve is the protocol of App Service and Container Apps, version 2019-08-01.
// https://learn.microsoft.com/azure/container-apps/managed-identity
func (i *Identity) serve(w http.ResponseWriter, r *http.Request) {
	if i.away.Load() {
		i.refused.Add(1)
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	}
	q := r.URL.Query()
	client := q.Get("client_id")
	switch {
	case r.Header.Get("X-IDENTITY-HEADER") != i.header:
		http.Error(w, "wrong identity header", http.StatusUnauthorized)
		return
	case q.Get("api-version") != "2019-08-01" || strings.TrimSuffix(q.Get("resource"), "/") != audience || !slices.Contains(i.clients, client):
		http.Error(w, fmt.Sprintf("no token for %s", r.URL.RawQuery), http.StatusBadRequest)
		return
	}
	now := time.Now()
	text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: client, Audience: jwt.ClaimStrings{audience},
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now.Add(-time.Minute)), ExpiresAt: jwt.NewNumericDate(now.Add(i.life + grace)),
		},
		AppID: client, ObjectID: client, TenantID: "00000000-0000-0000-0000-000000000001",
	}).SignedString(i.key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i.tokens.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{ // the client is gone; nothing to do
		"access_token": text, "token_type": "Bearer", "resource": audience, "client_id": client,
		"expires_on": strconv.FormatInt(now.Add(i.life).Unix(), 10),
	})
}

// who returns the client id in a token that we signed and that has not ended.
func (i *Identity) who(token string) (string, error) {
	var c claims
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return &i.key.PublicKey, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithAudience(audience), jwt.WithIssuer(issuer), jwt.WithExpirationRequired())
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	if c.AppID == "" {
		return "", errors.New("read a token: it names no application")
	}
	return c.AppID, nil
}

func init() { jwt.MarshalSingleStringAsArray = false } // as Azure writes aud, and Azurite reads it
