package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
)

// rights are what the API server says of the controllers' rights, and what was asked of it.
type rights struct {
	user      string
	lacks     []rbac.Permission
	err       error
	asked     []time.Time
	rechecked []schema.GroupResource
	missing   []definition.Missing
}

func (r *rights) Username(context.Context) string { return r.user }

func (r *rights) MissingPermissions(context.Context, []rbac.Permission, time.Time) ([]rbac.Permission, error) {
	r.asked = append(r.asked, time.Now())
	return r.lacks, r.err
}

func (r *rights) RecheckAccess(resource schema.GroupResource) {
	r.rechecked = append(r.rechecked, resource)
}

func (r *rights) Missing() []definition.Missing { return r.missing }

func (r *rights) ActingAs(string) []object.Key {
	return []object.Key{{Kind: "Definition", Name: "acts"}}
}

func newPermissionsOf(r *rights) (p *permissions, logged, woken *[]string) {
	logged, woken = new([]string), new([]string)
	p = newPermissions(nil, funcr.New(func(_, args string) { *logged = append(*logged, args) }, funcr.Options{}))
	p.account, p.watches, p.registry = r, r, r
	p.enqueue = func(key object.Key) { *woken = append(*woken, key.String()) }
	return p, logged, woken
}

var list = rbac.Permission{Verb: "list", Group: "kro.run", Resource: "apps"}

func TestMissingPermissionsAreLoggedWhenTheyChange(t *testing.T) {
	r := &rights{user: "controllers"}
	p, logged, _ := newPermissionsOf(r)
	steps := []struct {
		reason string
		lacks  []rbac.Permission
		err    error
		want   string
		notes  string
	}{
		{"it isn't known", nil, errors.New("timeout"), "cannot determine the permissions of the controllers", "cannot determine the permissions of the controllers: timeout"},
		{"it still isn't known", nil, errors.New("timeout"), "", "cannot determine the permissions of the controllers: timeout"},
		{"one is missing", []rbac.Permission{list}, nil, "the controllers lack permissions", "controllers lacks: list apps.kro.run"},
		{"it is still missing", []rbac.Permission{list}, nil, "", "controllers lacks: list apps.kro.run"},
		{"it was granted", nil, nil, "have been granted the permissions", ""},
		{"nothing is missing", nil, nil, "", ""},
	}
	for _, step := range steps {
		*logged = nil
		r.lacks, r.err = step.lacks, step.err
		complete := p.check(t.Context(), time.Now())
		if complete != (step.err == nil && len(step.lacks) == 0) {
			t.Errorf("%s: complete is %t", step.reason, complete)
		}
		if got := strings.Join(*logged, "\n"); !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
			t.Errorf("%s: logged %q", step.reason, got)
		}
		if got := strings.Join(p.notes(), "\n"); got != step.notes {
			t.Errorf("%s: the notes are %q", step.reason, got)
		}
	}
	if diff := cmp.Diff([]schema.GroupResource{{Group: "kro.run", Resource: "apps"}}, r.rechecked); diff != "" {
		t.Errorf("watches that may be forbidden (-want +got):\n%s", diff)
	}
	p, logged, _ = newPermissionsOf(r)
	if p.check(t.Context(), time.Now()); !strings.Contains(strings.Join(*logged, ""), "have all permissions") {
		t.Errorf("at first: %q", *logged)
	}
}

func TestAFailureForLackOfAPermissionNamesTheRemedy(t *testing.T) {
	crds := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	forbidden := apierrors.NewForbidden(crds, "bindings.espalier.dev", errors.New(`User "system:serviceaccount:espalier-system:controllers" cannot patch resource`))
	denied := apierrors.NewForbidden(crds, "bindings.espalier.dev", errors.New("ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: no changes"))
	r := &rights{user: "system:serviceaccount:espalier-system:controllers"}
	p, _, _ := newPermissionsOf(r)
	for name, tc := range map[string]struct {
		err      error
		lacks    []rbac.Permission
		reviewed error
		want     string
	}{
		"a permission is missing": {
			errors.Join(errors.New("install it"), forbidden), []rbac.Permission{list}, nil,
			errors.Join(errors.New("install it"), forbidden).Error() + "; grant the controllers what they lack: espalier rbac --controllers --serviceaccount espalier-system:controllers | kubectl apply -f -",
		},
		"none is missing: an admission policy denies the request": {denied, nil, nil, denied.Error()},
		"the permissions cannot be determined":                    {forbidden, []rbac.Permission{list}, errors.New("timeout"), forbidden.Error()},
		"another failure":                                         {errors.New("timeout"), []rbac.Permission{list}, nil, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			r.lacks, r.err = tc.lacks, tc.reviewed
			if got := p.explain(t.Context(), tc.err); got.Error() != tc.want || !errors.Is(got, tc.err) {
				t.Errorf("got  %v\nwant %s", got, tc.want)
			}
		})
	}
	if err := p.explain(t.Context(), nil); err != nil {
		t.Errorf("no failure: %v", err)
	}
}

func TestMissingPermissionsOfTheControllersAreListedFirst(t *testing.T) {
	r := &rights{lacks: []rbac.Permission{list}, missing: []definition.Missing{
		{Definition: object.Key{Name: "apps"}, Permissions: []rbac.Permission{list}},
		{Definition: object.Key{Namespace: "prod", Name: "shops"}, User: "team", Permissions: []rbac.Permission{list}},
	}}
	p, _, _ := newPermissionsOf(r)
	p.check(t.Context(), time.Now())
	want := []string{
		"the controllers lacks: list apps.kro.run",
		"the controllers lacks, for definition apps: list apps.kro.run",
		"team lacks, for definition prod/shops: list apps.kro.run",
	}
	if diff := cmp.Diff(want, p.notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if got := remedy("me"); got != "espalier rbac --controllers --user me | kubectl apply -f -" && !strings.HasPrefix(got, "espalier rbac --controllers ") {
		t.Errorf("the remedy is %q", got)
	}
}

func TestPermissionsAreCheckedWhileSomeAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rights{lacks: []rbac.Permission{list}}
		p, _, woken := newPermissionsOf(r)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.run(ctx)
		synctest.Wait()
		p.run(ctx) // another call does it, so that this one returns
		<-time.After(10 * time.Second)
		synctest.Wait()
		var at []time.Duration
		for _, asked := range r.asked {
			at = append(at, asked.Sub(began))
		}
		if diff := cmp.Diff([]time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, at); diff != "" {
			t.Errorf("asked with growing delay (-want +got):\n%s", diff)
		}
		r.lacks, r.asked = nil, nil
		p.permissionsChanged("")
		p.permissionsChanged("")
		synctest.Wait()
		<-time.After(time.Hour)
		synctest.Wait()
		if len(r.asked) == 0 || len(r.asked) > 2 {
			t.Errorf("after something else was granted it is asked %d times", len(r.asked))
		}
		p.permissionsChanged("team")
		if diff := cmp.Diff([]string{"Definition acts", "Definition acts", "Definition acts"}, *woken); diff != "" {
			t.Errorf("definitions that are enqueued (-want +got):\n%s", diff)
		}
	})
}
