package hook

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

// fake is a service with prepared answers. For the services with actions in forms they are by action, each
// list used up in its order; the last one stays.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string][]string
	calls   []string
	forms   []url.Values
	bodies  []string
}

// failure is an answer with an error of EC2.
func failure(code string) string {
	return "!" + `<Response><Errors><Error><Code>` + code + `</Code><Message>text</Message></Error></Errors><RequestID>r</RequestID></Response>`
}

// fault is an answer with an error of IAM and RDS.
func fault(code string) string {
	return "!" + `<ErrorResponse><Error><Type>Sender</Type><Code>` + code + `</Code><Message>text</Message></Error><RequestId>r</RequestId></ErrorResponse>`
}

func newFake(t *testing.T, answers map[string][]string) (*fake, aws.Config) {
	t.Helper()
	f := &fake{answers: answers}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f, aws.Config{
		Region: "eu-central-1", BaseEndpoint: &f.URL, HTTPClient: response.WithBufferedBodies(f.Client()), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	action := form.Get("Action")
	if action == "" {
		query := r.URL.Query()
		query.Del("x-id")
		action = r.Method + " " + r.URL.Path
		if len(query) > 0 {
			action += "?" + strings.TrimSuffix(query.Encode(), "=")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.forms, f.bodies = append(f.calls, action), append(f.forms, form), append(f.bodies, string(body))
	list := f.answers[action]
	if len(list) == 0 {
		http.Error(w, "no answer for "+action, http.StatusNotImplemented)
		return
	}
	if len(list) > 1 {
		f.answers[action] = list[1:]
	}
	w.Header().Set("Content-Type", "text/xml")
	text, failed := strings.CutPrefix(list[0], "!")
	if failed {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = fmt.Fprint(w, text)
}

// called returns the calls so far.
func (f *fake) called() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " ")
}
