package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/wire"
)

// refusing answers every write with a status, and every read of the object with what is
// stored of it: "" for nothing. Later, if it isn't empty, is what is stored from the
// second write on.
type refusing struct {
	answer        metav1.Status
	stored, later string
	writes, reads int
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	status := func(answer metav1.Status) {
		answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(answer.Code))
		_ = json.NewEncoder(w).Encode(answer)
	}
	if r.Method != http.MethodGet {
		s.writes++
		status(s.answer)
		return
	}
	s.reads++
	if s.stored == "" {
		status(apierrors.NewNotFound(schema.GroupResource{Group: "x.example.com", Resource: "things"}, "x").ErrStatus)
	} else {
		fmt.Fprint(w, s.stored)
	}
	if s.later != "" {
		s.stored = s.later
	}
}

func thing(uid, revision string) string {
	return fmt.Sprintf(`{"apiVersion":"x.example.com/v1","kind":"Thing","metadata":{"name":"x","namespace":"y","uid":%q,"resourceVersion":%q}}`, uid, revision)
}

// TestAConflictIsConfirmedByARead answers writes as the API server does when the
// object is gone, changed, or exists already. An admission webhook may answer so,
// too; then no event of the object follows, and none must be awaited.
func TestAConflictIsConfirmedByARead(t *testing.T) {
	read := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "7", "finalizers": []any{"f"}}}}
	things := schema.GroupResource{Group: "x.example.com", Resource: "things"}
	inUse := apierrors.NewConflict(things, "x", fmt.Errorf("the object is in use")).ErrStatus
	notFound := apierrors.NewNotFound(things, "x").ErrStatus
	incarnation := map[string]func(*kube.Client) error{
		"Update": func(c *kube.Client) error { _, err := c.Update(t.Context(), read, "u", "m"); return err },
		"Share":  func(c *kube.Client) error { _, err := c.UpdateWithoutForce(t.Context(), read, "u", "m"); return err },
		"Contribute": func(c *kube.Client) error {
			_, err := c.Contribute(t.Context(), read, "u", kube.Contributor{Manager: "m", Subresource: "status"})
			return err
		},
		"Mark": func(c *kube.Client) error {
			_, err := c.PatchMetadata(t.Context(), read, map[string]any{"metadata": map[string]any{}}, "m")
			return err
		},
	}
	revision := map[string]func(*kube.Client) error{
		"Patch":           func(c *kube.Client) error { _, err := c.Patch(t.Context(), read, map[string]any{}, "m"); return err },
		"Replace":         func(c *kube.Client) error { _, err := c.Replace(t.Context(), read, "m"); return err },
		"WriteStatus":     func(c *kube.Client) error { _, err := c.WriteStatus(t.Context(), read, nil, "m"); return err },
		"DeleteUnchanged": func(c *kube.Client) error { return c.DeleteIfUnchanged(t.Context(), read) },
		"RemoveFinalizers": func(c *kube.Client) error {
			_, err := c.RemoveFinalizers(t.Context(), read, []string{"f"}, "m")
			return err
		},
	}
	cases := map[string]struct {
		writes        map[string]func(*kube.Client) error
		answer        metav1.Status
		stored        string
		gone, refused bool
	}{
		"a conflict over an unchanged object":                    {incarnation, inUse, thing("u", "7"), false, true},
		"a conflict over a changed object":                       {incarnation, inUse, thing("u", "8"), false, true},
		"a conflict over another object of the name":             {incarnation, inUse, thing("v", "9"), true, false},
		"a conflict over an object that is gone":                 {incarnation, inUse, "", true, false},
		"not found, and the object exists":                       {incarnation, notFound, thing("u", "7"), false, true},
		"a conflict over the revision of an unchanged object":    {revision, inUse, thing("u", "7"), false, true},
		"a conflict over the revision of a changed object":       {revision, inUse, thing("u", "8"), true, false},
		"a conflict over the revision of an object that is gone": {revision, inUse, "", true, false},
	}
	for name, tc := range cases {
		for verb, write := range tc.writes {
			t.Run(verb+" is answered with "+name, func(t *testing.T) {
				err := write(connected(t, &refusing{answer: tc.answer, stored: tc.stored}))
				if got := kube.IsStale(err); err == nil || got != tc.gone {
					t.Errorf("gone or changed: got %t of %v", got, err)
				}
				if got := kube.IsWebhookConflict(err); got != tc.refused {
					t.Errorf("refused by a webhook: got %t of %v", got, err)
				}
				if tc.refused && (!kube.IsTransient(err) || reasonOf(err) != kube.ReasonRejected) {
					t.Errorf("the error is not classified as rejected and transient: %v", reasonOf(err))
				}
			})
		}
	}
}

// TestDeleteIfMetadataUnchanged deletes an object that has changed since it was read.
func TestDeleteIfMetadataUnchanged(t *testing.T) {
	read := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "7"}}}
	protected := strings.Replace(thing("u", "8"), `"name"`, `"annotations":{"espalier.dev/protect":"the ledger"},"name"`, 1)
	finalized := strings.Replace(thing("u", "7"), `"name"`, `"finalizers":["example.com/f"],"name"`, 1)
	cases := map[string]struct {
		live             string // "" for nothing
		left             []string
		changed, refused bool
		gone             bool
	}{
		"an unchanged object":                                  {thing("u", "7"), nil, false, false, true},
		"an object with another status":                        {thing("u", "8"), nil, false, false, true},
		"an object with a finalizer":                           {finalized, []string{finalized}, false, false, false},
		"an object that was annotated":                         {protected, []string{protected}, true, false, false},
		"an object that is gone":                               {"", nil, false, false, true},
		"another object of the name":                           {thing("v", "8"), []string{thing("v", "8")}, false, false, true},
		"an unchanged object that a webhook refuses to delete": {thing("u", "7"), []string{thing("u", "7")}, false, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := &storing{stored: tc.live, refuses: tc.refused}
			gone, err := connected(t, server).DeleteIfMetadataUnchanged(t.Context(), read, metav1.DeletePropagationBackground)
			if gone != tc.gone {
				t.Errorf("gone: got %t", gone)
			}
			if got := errors.Is(err, kube.ErrMetadataChanged); got != tc.changed || err != nil && !tc.changed && !tc.refused {
				t.Errorf("changed: got %t of %v", got, err)
			}
			if got := kube.IsWebhookConflict(err); got != tc.refused {
				t.Errorf("refused by a webhook: got %t of %v", got, err)
			}
			if left := strings.Join(tc.left, ""); server.stored != left {
				t.Errorf("the stored object is %q, want %q", server.stored, left)
			}
		})
	}
}

// storing has one object, or none (""), and deletes it as its preconditions say. If it refuses,
// a webhook answers deletions as if the object had changed.
type storing struct {
	stored  string
	refuses bool
}

func (s *storing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	things := schema.GroupResource{Group: "x.example.com", Resource: "things"}
	fail := func(err *apierrors.StatusError) {
		err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(err.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(err.ErrStatus)
	}
	var live unstructured.Unstructured
	if s.stored == "" {
		fail(apierrors.NewNotFound(things, "x"))
		return
	} else if err := json.Unmarshal([]byte(s.stored), &live); err != nil {
		fail(apierrors.NewInternalError(err))
		return
	}
	if r.Method == http.MethodGet {
		fmt.Fprint(w, s.stored)
		return
	}
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	p := options.Preconditions
	if s.refuses || *p.UID != live.GetUID() || *p.ResourceVersion != live.GetResourceVersion() {
		fail(apierrors.NewConflict(things, "x", errors.New("the precondition fails")))
		return
	}
	if len(live.GetFinalizers()) > 0 {
		fmt.Fprint(w, s.stored)
		return
	}
	s.stored = ""
	fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Success","details":{"name":"x","uid":%q}}`, live.GetUID())
}

// TestNameTakenIsConfirmedByARead creates objects of which the server answers that they
// exist.
func TestNameTakenIsConfirmedByARead(t *testing.T) {
	inUse := apierrors.NewConflict(schema.GroupResource{Group: "x.example.com", Resource: "things"}, "x", fmt.Errorf("the object is in use")).ErrStatus
	cases := map[string]struct {
		server         *refusing
		holder         string
		writes, reads  int
		taken, refused bool
	}{
		"another object has the name":              {&refusing{answer: inUse, stored: thing("v", "9")}, "v", 1, 1, true, false},
		"no object has the name":                   {&refusing{answer: inUse}, "", 2, 2, false, true},
		"no object has the name, and then one has": {&refusing{answer: inUse, later: thing("w", "10")}, "w", 2, 2, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y"}}}
			_, err := connected(t, tc.server).Create(t.Context(), o, "m")
			if got := kube.IsNameTaken(err); got != tc.taken {
				t.Errorf("taken: got %t of %v", got, err)
			}
			if got := kube.IsWebhookConflict(err); got != tc.refused {
				t.Errorf("refused by a webhook: got %t of %v", got, err)
			}
			if holder := kube.ExistingObject(err); (holder == nil) != (tc.holder == "") || holder != nil && string(holder.GetUID()) != tc.holder {
				t.Errorf("%v has the name", holder)
			}
			if tc.server.writes != tc.writes || tc.server.reads != tc.reads {
				t.Errorf("%d writes and %d reads", tc.server.writes, tc.server.reads)
			}
		})
	}
}

// TestForbiddenErrorsNameVerbAndResource makes forbidden writes. The text of the answer
// isn't shown: it may come from an admission webhook and quote the object.
func TestForbiddenErrorsNameVerbAndResource(t *testing.T) {
	read := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "7"}}}
	things := schema.GroupResource{Group: "x.example.com", Resource: "things"}
	c := connected(t, &refusing{answer: apierrors.NewForbidden(things, "x", errors.New("s3cret")).ErrStatus})
	_, status := c.WriteStatus(t.Context(), read, nil, "m")
	_, finalizers := c.SetFinalizers(t.Context(), read, nil, "m")
	_, create := c.Create(t.Context(), read, "m")
	for want, err := range map[string]error{
		"the API server answers Forbidden to update things.x.example.com/status": status,
		"the API server answers Forbidden to patch things.x.example.com":         finalizers,
	} {
		if got := kube.RedactedMessage(fmt.Errorf("write: %w", err)); got != want {
			t.Errorf("got %q, not %q", got, want)
		}
	}
	for _, err := range []error{status, finalizers, create} {
		if !apierrors.IsForbidden(err) || reasonOf(err) != kube.ReasonForbidden {
			t.Errorf("the error is not classified as forbidden: %v", err)
		}
	}
}

func connected(t *testing.T, h http.Handler) *kube.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client, err := wire.NewClient(&rest.Config{Host: server.URL, QPS: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kube.NewClient(client, resolved{})
}
