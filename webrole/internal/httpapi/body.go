package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// maxJSON bounds JSON bodies, in bytes.
const maxJSON = 64 << 10

// readJSON reads a body: bounded, strict, and fitting the schema of the document that T
// is generated from and named after.
func readJSON[T any](s *Server, c *gin.Context) (body T, err error) {
	if _, err := wantType(c.Request, "application/json"); err != nil {
		return body, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxJSON))
	if err != nil {
		return body, bodyReadProblem(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil { // refuses repeated names, invalid UTF-8 and lone surrogates
		return body, problem.New(problem.InvalidJSON, "The body is not strict JSON.").Because(err)
	}
	schema := s.doc.Components.Schemas[reflect.TypeFor[T]().Name()]
	if err := schema.Value.VisitJSON(value, openapi3.VisitAsRequest()); err != nil {
		return body, bodyProblem(err)
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return body, problem.New(problem.InvalidBody, "The body does not fit the API's document.").Because(err)
	}
	return body, nil
}

// readOptional is readJSON for a body that may be missing.
func readOptional[T any](s *Server, c *gin.Context) (body T, err error) {
	if c.Request.ContentLength == 0 {
		return body, nil
	}
	return readJSON[T](s, c)
}

// bodyProblem says which member is wrong, and never repeats its value.
func bodyProblem(err error) error {
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		where := "/" + strings.Join(schema.JSONPointer(), "/")
		return problem.New(problem.InvalidBody, "Member %s: %s.", where, schema.Reason)
	}
	return problem.New(problem.InvalidBody, "The body does not fit the API's document.").Because(err)
}

// wantType returns the body's media type, which one of the patterns must match, such as
// video/*. The body is not compressed.
func wantType(r *http.Request, patterns ...string) (string, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return "", problem.New(problem.UnsupportedType, "Compressed bodies are not taken.")
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := parameters["charset"]
	fits := func(pattern string) bool {
		matched, _ := path.Match(pattern, kind)
		return matched
	}
	if err != nil || !slices.ContainsFunc(patterns, fits) || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", problem.New(problem.UnsupportedType, "The body must be %s; a text in UTF-8.", strings.Join(patterns, " or "))
	}
	return kind, nil
}

// bodyReadProblem tells a body that is too large or too slow (which package
// problem knows) from one that broke off.
func bodyReadProblem(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, middleware.ErrSlow) {
		return fmt.Errorf("read body: %w", err)
	}
	return problem.New(problem.BodyIncomplete, "The body ended before its Content-Length.").Because(err)
}

// refuseBody answers without reading the rest of a body that may be gigabytes.
func refuseBody(c *gin.Context, err error) {
	c.Header("Connection", "close")
	problem.Abort(c, err)
}
