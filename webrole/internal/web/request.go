package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// checkParameters checks path, query and header values against the document
// before the generated code reads them. Bodies are checked by ReadJSON, which
// bounds them first.
func checkParameters(c *gin.Context) {
	template := placeholder.ReplaceAllString(strings.TrimPrefix(c.FullPath(), Base), "{$1}")
	item := document().Paths.Value(template)
	operation := item.GetOperation(c.Request.Method)
	parameters := slices.Concat(item.Parameters, operation.Parameters)
	if err := onlyKnown(c, parameters); err != nil {
		problem.Abort(c, err)
		return
	}
	values := map[string]string{}
	for _, p := range c.Params {
		values[p.Key] = p.Value
	}
	input := &openapi3filter.RequestValidationInput{
		Request: c.Request, PathParams: values,
		Route: &routers.Route{Spec: document(), Path: template, PathItem: item, Method: c.Request.Method, Operation: operation},
	}
	// Parameter by parameter: ValidateRequest would read the whole body into
	// memory as soon as the document has a security requirement.
	for _, parameter := range parameters {
		if err := openapi3filter.ValidateParameter(c.Request.Context(), input, parameter.Value); err != nil {
			problem.Abort(c, parameterProblem(err))
			return
		}
	}
}

// placeholder is a parameter in a path of Gin, which the document has in braces.
var placeholder = regexp.MustCompile(`:(\w+)`)

// onlyKnown refuses query parameters that the document does not have: a
// misspelt filter must not look like one that matched everything.
func onlyKnown(c *gin.Context, parameters openapi3.Parameters) error {
	for name, given := range c.Request.URL.Query() {
		known := slices.ContainsFunc(parameters, func(p *openapi3.ParameterRef) bool {
			return p.Value.In == openapi3.ParameterInQuery && p.Value.Name == name
		})
		if !known {
			return problem.New(problem.InvalidParameter, "The request has a query parameter that this operation does not know.")
		}
		if len(given) > 1 {
			return problem.New(problem.InvalidParameter, "The query parameter %q is given more than once.", name)
		}
	}
	return nil
}

func parameterProblem(err error) error {
	bad, is := errors.AsType[*openapi3filter.RequestError](err)
	if !is || bad.Parameter == nil {
		return problem.New(problem.InvalidParameter, "The request does not fit the API's document.").Because(err)
	}
	code, reason := problem.InvalidParameter, "it is not valid"
	if own, has := bad.Parameter.Extensions["x-problem"].(string); has {
		code.Name = own
	}
	if schema, is := errors.AsType[*openapi3.SchemaError](err); is {
		reason = schema.Reason
	}
	return problem.New(code, "Parameter %q: %s.", bad.Parameter.Name, reason).Because(err)
}

// Bounds of JSON bodies: bytes, and levels of arrays and objects in each other.
const (
	maxJSON  = 64 << 10
	maxDepth = 32
)

// ReadJSON reads a body: bounded, strict, and fitting the schema of the document that T
// is generated from and named after.
func ReadJSON[T any](c *gin.Context) (body T, err error) {
	if _, err := WantType(c.Request, "application/json"); err != nil {
		return body, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxJSON))
	if err != nil {
		return body, fmt.Errorf("read body: %w", err)
	}
	if deep(data) {
		return body, problem.New(problem.InvalidJSON, "The body is more than %d levels deep.", maxDepth)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil { // refuses repeated names, invalid UTF-8 and lone surrogates
		return body, problem.New(problem.InvalidJSON, "The body is not strict JSON.").Because(err)
	}
	schema := document().Components.Schemas[reflect.TypeFor[T]().Name()]
	if err := schema.Value.VisitJSON(value, openapi3.VisitAsRequest()); err != nil {
		return body, bodyProblem(err)
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return body, problem.New(problem.InvalidBody, "The body does not fit the API's document.").Because(err)
	}
	return body, nil
}

// deep reports whether a JSON text has more levels than the API's documents need. To unmarshal
// such a text takes a stack of megabytes.
func deep(text []byte) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := decoder.ReadToken(); err != nil {
			return false
		}
		if decoder.StackDepth() > maxDepth {
			return true
		}
	}
}

// ReadOptional is ReadJSON for a body that may be missing.
func ReadOptional[T any](c *gin.Context) (body T, err error) {
	if c.Request.ContentLength == 0 {
		return body, nil
	}
	return ReadJSON[T](c)
}

// bodyProblem says which member is wrong, and never repeats its value.
func bodyProblem(err error) error {
	if schema, is := errors.AsType[*openapi3.SchemaError](err); is {
		place := "/" + strings.Join(schema.JSONPointer(), "/")
		return problem.New(problem.InvalidBody, "Member %s: %s.", place, schema.Reason)
	}
	return problem.New(problem.InvalidBody, "The body does not fit the API's document.").Because(err)
}

// WantType returns the body's media type, which one of the patterns must match, such as
// video/*. The body is not compressed.
func WantType(r *http.Request, patterns ...string) (string, error) {
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

// RefuseBody answers without reading the rest of a body that may be gigabytes.
func RefuseBody(c *gin.Context, err error) {
	c.Header("Connection", "close")
	problem.Abort(c, err)
}
