package histories_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const modelVariable = "HISTORIES_MODEL" // set: this process is the model's server

func TestMain(m *testing.M) {
	if os.Getenv(modelVariable) != "" {
		serveModel()
		return
	}
	azuritetest.Main(m)
}

// startModel runs the model as a server in another process, without faults and delays, and
// returns its connection string.
func startModel(t testing.TB) string {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env, server.Stderr = append(os.Environ(), modelVariable+"=1"), os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// serveModel prints the connection string and serves until its input ends, with the process
// that started it.
func serveModel() {
	model := newService(0)
	connection := "AccountName=model;AccountKey=bW9kZWw=;DefaultEndpointsProtocol=http"
	for name, port := range map[string]string{"Blob": "10000", "Queue": "10001", "Table": "10002"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		connection += fmt.Sprintf(";%sEndpoint=http://%s/model", name, listener.Addr())
		go func() { _ = http.Serve(listener, model.at(port)) }() // until the process ends
	}
	fmt.Println(connection)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// at serves what the model does on a port.
func (s *service) at(port string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.URL.Host = "model:" + port
		got := s.do(r, body).response(r, time.Now().Add(s.skew))
		maps.Copy(w.Header(), got.Header)
		w.WriteHeader(got.StatusCode)
		_, _ = io.Copy(w, got.Body) // an error says that the client is gone
	})
}
