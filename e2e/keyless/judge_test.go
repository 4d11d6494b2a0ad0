package keyless

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// judge decides as the account would: 0 lets a request pass. It notes requests that
// no deployed role may send.
func (a *Account) judge(r *http.Request) (status int, code string) {
	service, q := a.service(r.Host), r.URL.Query()
	authorization := r.Header.Get("Authorization")
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	switch {
	case service == "":
		return http.StatusBadRequest, "InvalidUri"
	case r.Method == http.MethodOptions:
		a.count("preflight") // CORS rules decide
		return 0, ""
	case authorization == "" && q.Get("sig") != "" && q.Get("skoid") != "" && q.Get("ske") != "":
		a.count("signature") // of a lent key; Azurite checks it
		return 0, ""
	case !bearer:
		scheme, _, _ := strings.Cut(authorization, " ")
		a.mark(r, "neither a token nor the signature of a lent key, but "+scheme)
		return http.StatusForbidden, "KeyBasedAuthenticationNotPermitted"
	}
	client, err := a.identity.who(token)
	if err != nil {
		a.mark(r, err.Error())
		return http.StatusUnauthorized, "InvalidAuthenticationInfo"
	}
	a.count("token")
	if needed := roleFor(service, q); needed == "" || !slices.Contains(a.roles[client], needed) {
		a.count("forbidden")
		return http.StatusForbidden, "AuthorizationPermissionMismatch"
	}
	return 0, ""
}

func (a *Account) mark(r *http.Request, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, r.Method+" "+r.Host+r.URL.Path+": "+what)
}

// roleFor is the role of least rights that allows a request, as Azure's reference of
// the request has it; empty where only a role for managing accounts does. A
// contributor of blobs may borrow a delegation key, if the role is for the account.
// https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage
func roleFor(service string, q url.Values) string {
	if q.Get("restype") == "service" && q.Get("comp") == "properties" || q.Get("comp") == "acl" {
		return ""
	}
	return map[string]string{
		"blob": "Storage Blob Data Contributor", "queue": "Storage Queue Data Contributor", "table": "Storage Table Data Contributor",
	}[service]
}
