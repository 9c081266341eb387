package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/permissions"
	"github.com/espalier-dev/espalier/internal/composition/packages/runtime"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// grant writes the roles of a provider's revision, as far as the administrator allows them. Without any bound it writes none: a user
// may have bound roles to the ServiceAccount. The note says what is withheld.
func (r *Revisions) grant(ctx context.Context, s *revisionState, account *rbacv1.Subject) (note string, err error) {
	if r.Package.Kind != v1.ProviderKind {
		return "", nil
	}
	others, known, err := r.family(s)
	if err != nil || !known {
		return "", cmp.Or(err, errNotRead)
	}
	g := permissions.Compute(r.providerOf(s.raw.Unstructured, s.status), others, account, r.ProviderPermissions)
	var requested []any
	for _, rule := range rbac.Rules(g.Requested) {
		requested = append(requested, asMap(rule))
	}
	set(s.status, "permissionRequests", requested)
	var objects []*unstructured.Unstructured
	for _, role := range g.Roles {
		objects = append(objects, runtime.Encode(role, rbacv1.SchemeGroupVersion.WithKind("ClusterRole").ToAPIVersionAndKind))
	}
	if g.Binding != nil {
		objects = append(objects, runtime.Encode(g.Binding, rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding").ToAPIVersionAndKind))
	}
	for _, o := range objects { // all are watched from the beginning
		s.lease.Watch(watch.Object(o.GroupVersionKind(), "", o.GetName()))
	}
	for _, o := range objects {
		if err := applyObject(ctx, r.Cluster, s.lease, o); err != nil {
			return "", err
		}
	}
	return noteOf(g, r.ProviderPermissions), nil
}

// family reads the revisions of the family, because the program uses their kinds too. Each change of them causes another reconcile.
func (r *Revisions) family(s *revisionState) (out []permissions.Revision, known bool, err error) {
	family := s.raw.GetLabels()[permissions.FamilyLabel]
	if family == "" {
		return nil, true, nil
	}
	all, state := s.lease.Matching(RevisionKind(r.Package), "", labels.SelectorFromSet(labels.Set{permissions.FamilyLabel: family}))
	if state.Phase != watch.Synced {
		return nil, false, unavailable(state, "ProviderRevisions")
	}
	for _, o := range all {
		if stringAt(o.Object, "spec", "desiredState") == string(v1.RevisionActive) {
			out = append(out, r.providerOf(o, statusOf(o.Object)))
		}
	}
	return out, true, nil
}

func (r *Revisions) providerOf(o *unstructured.Unstructured, status map[string]any) permissions.Revision {
	reference, _ := parseReference(stringAt(o.Object, "spec", "image")) // one without a source has no family
	out := permissions.Revision{Name: o.GetName(), UID: o.GetUID(), Source: reference.Source, Family: o.GetLabels()[permissions.FamilyLabel]}
	refs, _ := status["objectRefs"].([]any)
	for _, ref := range refs {
		ref, _ := ref.(map[string]any)
		if kind, ok := permissions.ResourceOf(stringAt(ref, "kind"), stringAt(ref, "name")); ok {
			out.Kinds = append(out.Kinds, kind)
		}
	}
	out.SafeStart = startsSafely(status)
	return out
}

// startsSafely reports whether the provider waits for its kinds, so these need not be installed at once.
func startsSafely(status map[string]any) bool {
	capabilities, _ := status["capabilities"].([]any)
	return slices.ContainsFunc(capabilities, func(c any) bool {
		text, _ := c.(string)
		return permissions.IsCapability(text, v1.CapabilitySafeStart)
	})
}

// maxWithheld is how many permissions a message names.
const maxWithheld = 3

func noteOf(g permissions.Grant, bound []rbacv1.PolicyRule) string {
	switch {
	case len(g.Withheld) == 0:
		return ""
	case len(bound) == 0:
		return "no permissions are granted to its ServiceAccount, because packages.providerPermissions is empty; 'espalier rbac' prints what it needs"
	}
	all := rbac.Describe(g.Withheld)
	text := strings.Join(all[:min(len(all), maxWithheld)], "; ")
	if more := len(all) - maxWithheld; more > 0 {
		text += fmt.Sprintf("; and for %s", diag.Counted(more, "further resource", "further resources"))
	}
	return "its ServiceAccount lacks what packages.providerPermissions does not allow: " + text
}
