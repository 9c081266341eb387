package definition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Account is the account that reconciles the instances of a definition.
type Account struct {
	// User is the impersonated user; empty for the controllers themselves.
	User    string
	Named   v1alpha1.ServiceAccount
	Cluster *kube.Client
	Hub     *watch.Hub
}

// accountOf returns the service account that a definition names, or what is wrong with it;
// the rest of the definition may be invalid. A namespaced definition cannot name an account
// of another namespace: its authors have no permissions there.
func accountOf(owner object.Definition, definition *unstructured.Unstructured) (named v1alpha1.ServiceAccount, problem string) {
	value, is, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "serviceAccount")
	if !is || value == nil {
		return named, ""
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return named, "must be an object with a namespace and a name"
	}
	named.Namespace, _ = fields["namespace"].(string)
	named.Name, _ = fields["name"].(string)
	switch {
	case named.Name == "":
		return v1alpha1.ServiceAccount{}, "name is required"
	case owner.Namespace == "" && named.Namespace == "":
		return v1alpha1.ServiceAccount{}, "namespace is required in a cluster-scoped definition"
	case owner.Namespace != "" && named.Namespace != "" && named.Namespace != owner.Namespace:
		return v1alpha1.ServiceAccount{}, fmt.Sprintf("is in namespace %s; a definition in namespace %s can only use service accounts of that namespace", named.Namespace, owner.Namespace)
	case named.Namespace == "":
		named.Namespace = owner.Namespace
	}
	return named, ""
}

// resolveAccount sets the account that reconciles the instances: the one that the definition
// names, even if the rest of the definition is invalid. While the name is invalid the
// previous account stays, as known in memory or from the status. Without a previous account
// there is none: a mistake must not widen permissions.
func (r *Dialect) resolveAccount(v *session) {
	named, problem := accountOf(v.owner, v.Unstructured)
	if problem == "" {
		var err error
		if v.account, err = r.As(named); err == nil {
			return
		}
		problem = err.Error()
	}
	v.result.problems.Addf("spec.serviceAccount", "%s", problem)
	if v.account = v.memory.account; v.account.Cluster == nil && v.status.ServingRevision != 0 {
		var was v1alpha1.ServiceAccount // empty for the controllers themselves
		if reported := v.status.ServiceAccount; reported != nil {
			was = *reported
		}
		if was.Name != "" && v.owner.Namespace != "" && was.Namespace != v.owner.Namespace {
			return // its author has no permissions for accounts of other namespaces
		}
		if account, err := r.As(was); err == nil {
			v.account = account
		}
	}
}
