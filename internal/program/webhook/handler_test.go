package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// told are uses that a test has made up.
type told struct {
	uses  []usage.Usage
	err   error
	panic bool
	tried []string
}

func (u *told) UsesOf(context.Context, *unstructured.Unstructured) ([]usage.Usage, error) {
	if u.panic {
		panic("secret")
	}
	return u.uses, u.err
}

func (u *told) RecordDeletionAttempt(_ context.Context, o *unstructured.Unstructured, attempt Attempt, _ []usage.Usage) error {
	u.tried = append(u.tried, o.GetName()+" "+string(attempt.Policy)+" "+attempt.User.Username)
	return errors.New("can't be written")
}

func review(with string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r-1",` + with + `}}`
}

const (
	old   = `"oldObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"used","namespace":"prod"}}`
	asked = `"operation":"DELETE","userInfo":{"username":"alice"},` + old
)

func TestHandlerAnswers(t *testing.T) {
	ledger := []usage.Usage{{Key: object.Key{Kind: "Usage", Namespace: "prod", Name: "u"}, Reason: "the ledger"}}
	cases := map[string]struct {
		reason  string
		method  string
		body    string
		uses    told
		status  int
		allowed bool
		code    int32
		says    string
		tried   []string
		// anonymous says that anyone may have sent the request.
		anonymous bool
	}{
		"What is in use stays": {
			reason: "somebody uses it", body: review(asked), uses: told{uses: ledger}, status: 200, code: 409,
			says: "ConfigMap prod/used is in use: the ledger (Usage prod/u); delete it again once the usage is gone", tried: []string{"used Background alice"},
		},
		"What is replayed need not be repeated": {
			reason: "the usage replays it", body: review(asked), uses: told{uses: []usage.Usage{{Key: ledger[0].Key, Replay: true}}}, status: 200, code: 409,
			says: "in use (Usage prod/u); it is deleted once the usage is gone", tried: []string{"used Background alice"},
		},
		"How it was to go is noted": {
			reason: "that is how it goes later", body: review(asked + `,"options":{"propagationPolicy":"Foreground"}`), uses: told{uses: ledger}, status: 200, code: 409,
			says: "the ledger", tried: []string{"used Foreground alice"},
		},
		"unless nothing is meant by it": {
			reason: "a dry run leaves no trace", body: review(asked + `,"dryRun":true`), uses: told{uses: ledger}, status: 200, code: 409, says: "the ledger",
		},
		"An attempt that anyone may have sent is not recorded": {
			reason: "it would delete the object later", body: review(asked), uses: told{uses: ledger}, status: 200, code: 409, says: "the ledger", anonymous: true,
		},
		"and the answer says so if a usage replays deletions": {
			reason: "it has no effect", body: review(asked), uses: told{uses: []usage.Usage{{Key: ledger[0].Key, Replay: true}}}, status: 200, code: 409,
			says: "this deletion will not be replayed: without webhook.clientCA", anonymous: true,
		},
		"What isn't in use goes": {
			reason: "its label is old", body: review(asked), status: 200, allowed: true,
		},
		"While that can't be told it stays": {
			reason: "it may be in use", body: review(asked), uses: told{err: errors.New("no route")}, status: 200, code: 503, says: "no route",
		},
		"Other operations pass":            {reason: "nobody asks", body: review(`"operation":"UPDATE",` + old), status: 200, allowed: true},
		"A deletion of nothing is refused": {reason: "nothing follows", body: review(`"operation":"DELETE"`), status: 200, code: 400},
		"and one of nonsense":              {reason: "nothing follows", body: review(`"operation":"DELETE","oldObject":[1]`), status: 200, code: 400},
		"Nonsense isn't answered":          {reason: "it asks nothing", body: "{", status: 400},
		"nor is another kind":              {reason: "it asks nothing", body: `{"apiVersion":"v1","kind":"ConfigMap"}`, status: 400},
		"nor a review without a request":   {reason: "it asks nothing", body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, status: 400},
		"nor an older version":             {reason: "its answer would be another", body: `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`, status: 400},
		"nor what is too large":            {reason: "memory is bounded", body: strings.Repeat(" ", maxRequest+1), status: 413},
		"Only posts are answered":          {reason: "nothing else asks", method: http.MethodGet, status: 405},
		"A mistake tells nothing":          {reason: "it may hold a secret", body: review(asked), uses: told{panic: true}, status: 500},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.method == "" {
				tc.method = http.MethodPost
			}
			w := httptest.NewRecorder()
			Handler{Usages: &tc.uses, Authenticated: !tc.anonymous, Log: logr.Discard()}.ServeHTTP(w, httptest.NewRequest(tc.method, Path, strings.NewReader(tc.body)))
			if w.Code != tc.status {
				t.Fatalf("%s: it answers %d: %s", tc.reason, w.Code, w.Body)
			}
			if w.Code != http.StatusOK {
				if strings.Contains(w.Body.String(), "secret") {
					t.Errorf("%s: it says %s", tc.reason, w.Body)
				}
				return
			}
			var answer admissionv1.AdmissionReview
			if err := json.NewDecoder(w.Body).Decode(&answer); err != nil {
				t.Fatal(err)
			}
			r := answer.Response
			if r.UID != "r-1" || r.Allowed != tc.allowed {
				t.Fatalf("%s: %+v", tc.reason, r)
			}
			if !tc.allowed && (r.Result.Code != tc.code || !strings.Contains(r.Result.Message, tc.says) || r.Result.Reason == metav1.StatusReasonConflict) {
				t.Errorf("%s: %+v", tc.reason, r.Result)
			}
			if diff := cmp.Diff(tc.tried, tc.uses.tried); diff != "" {
				t.Errorf("%s: noted (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzHandler(f *testing.F) {
	for _, body := range []string{review(asked), review(`"operation":"DELETE","oldObject":[1],"options":7`), "{}", "null", `{"request":{}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		Handler{Usages: &told{}, Authenticated: true, Log: logr.Discard()}.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("it answers %d", w.Code)
		}
	})
}

func TestAnObjectHasWhatIsRecordedOfIt(t *testing.T) {
	want := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "used", "namespace": "prod", "uid": "u-1", "annotations": map[string]any{v1beta1.DeletionAttemptAnnotation: "Foreground"},
	}}}
	raw, err := want.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	r := &admissionRequest{OldObject: raw}
	if diff := cmp.Diff(want, r.object()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWhatIsNotNeededTakesNoMemory sends reviews whose values would take many times their bytes.
func TestWhatIsNotNeededTakesNoMemory(t *testing.T) {
	empty := func(item string) string { return "[" + strings.Repeat(item+",", maxObject/len(item+",")) + item + "]" }
	for name, body := range map[string]string{
		"a large object":        review(`"operation":"DELETE","oldObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"used"},"x":` + empty("{}") + `}`),
		"large metadata":        review(`"operation":"DELETE","oldObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"used","managedFields":` + empty("{}") + `}}`),
		"a user in many groups": review(`"operation":"DELETE","userInfo":{"groups":` + empty(`""`) + `},` + old),
		"large options":         review(`"operation":"DELETE","options":{"dryRun":` + empty(`""`) + `},` + old),
	} {
		t.Run(name, func(t *testing.T) {
			uses := &told{uses: []usage.Usage{{Key: object.Key{Kind: "Usage", Name: "u"}}}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := post(Handler{Usages: uses, Log: logr.Discard()}, Path, body)
			runtime.ReadMemStats(&after)
			if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 9*int64(len(body)) {
				t.Errorf("%d bytes are allocated for a body of %d", grown, len(body))
			}
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "is in use") {
				t.Errorf("it answers %d: %s", w.Code, w.Body)
			}
		})
	}
}
