package definition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Account is by whose rights the instances of a definition are looked after.
type Account struct {
	// User is who that is; empty for this program itself.
	User    string
	Named   v1alpha1.ServiceAccount
	Cluster *kube.Client
	Hub     *watch.Hub
}

// accountOf says which service account a definition names, or what is wrong with it; the
// rest of the definition may be unreadable. One in a namespace can't act with the rights of
// another: whoever may write definitions there has no say over those.
func accountOf(owner object.Definition, definition *unstructured.Unstructured) (named v1alpha1.ServiceAccount, problem string) {
	value, is, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "serviceAccount")
	if !is || value == nil {
		return named, ""
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return named, "is no service account: it has to have a namespace and a name"
	}
	named.Namespace, _ = fields["namespace"].(string)
	named.Name, _ = fields["name"].(string)
	switch {
	case named.Name == "":
		return v1alpha1.ServiceAccount{}, "names no service account"
	case owner.Namespace == "" && named.Namespace == "":
		return v1alpha1.ServiceAccount{}, "has to say in which namespace the service account is: the definition is in none"
	case owner.Namespace != "" && named.Namespace != "" && named.Namespace != owner.Namespace:
		return v1alpha1.ServiceAccount{}, fmt.Sprintf("is in namespace %s; a definition in %s takes service accounts of that namespace only", named.Namespace, owner.Namespace)
	case named.Namespace == "":
		named.Namespace = owner.Namespace
	}
	return named, ""
}

// resolveAccount finds the account by whose rights instances are looked after: the one that the
// definition names, whether the rest of it can be used or not. While that can't be told they
// stay in charge of whom they were in before, as is known here or as the status tells, and
// otherwise of nobody: a mistake doesn't widen rights.
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
		var was v1alpha1.ServiceAccount // none is for this program's own rights
		if told := v.status.ServiceAccount; told != nil {
			was = *told
		}
		if was.Name != "" && v.owner.Namespace != "" && was.Namespace != v.owner.Namespace {
			return // whoever writes that has no say over others' accounts
		}
		if account, err := r.As(was); err == nil {
			v.account = account
		}
	}
}
