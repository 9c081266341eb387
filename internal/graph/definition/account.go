package definition

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Account is the account that reconciles instances.
type Account struct {
	// User is the impersonated user; empty for the controllers themselves.
	User    string
	Named   v1alpha1.ServiceAccount
	Cluster *kube.Client
	Hub     *watch.Hub
	// Lifetime keeps the account while something reconciles as it; nil if it is kept anyway.
	Lifetime Lifetime
}

// Lifetime counts who needs an account. *cluster.Account implements it.
type Lifetime interface {
	Retain()
	Release()
}

func (a Account) recorded() string { return cmp.Or(a.User, rev.ControllersAccount) }

type accountRules struct {
	owner    object.Definition
	required bool // a cluster-scoped definition must name one
	oneUser  bool // nobody else could get the controllers' permissions by a definition in a namespace
}

// mayActAsControllers says whether the instances may be reconciled with the controllers' own permissions, or else why not.
func (a accountRules) mayActAsControllers() (allowed bool, because string) {
	switch {
	case a.oneUser && !a.required:
		return true, ""
	case a.owner.Namespace != "":
		return false, "which no definition in a namespace has"
	case a.required:
		return false, "and service accounts are required (--require-service-account)"
	}
	return true, ""
}

// specified returns the service account that a definition's spec names, or what is wrong with
// it; the rest of the spec may be invalid. A definition in a namespace never has the
// controllers' permissions: its authors may have permissions in their namespace only.
func (a accountRules) specified(definition *unstructured.Unstructured) (named v1alpha1.ServiceAccount, problem string) {
	value, exists, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "serviceAccount")
	if !exists || value == nil {
		allowed, _ := a.mayActAsControllers()
		switch {
		case allowed:
			return named, ""
		case a.owner.Namespace != "":
			return v1alpha1.ServiceAccount{Namespace: a.owner.Namespace, Name: rbac.DefaultServiceAccount}, ""
		}
		return named, "is required (--require-service-account, or controllers.requireServiceAccount of the chart): name the service account " +
			"whose permissions apply to the instances, and grant them with: espalier rbac " + a.owner.Name + " | kubectl apply -f -"
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return named, "must be an object with a namespace and a name"
	}
	named.Namespace, _ = fields["namespace"].(string)
	named.Name, _ = fields["name"].(string)
	if problem := graph.CheckServiceAccount(named, a.owner.Namespace); problem != "" {
		return v1alpha1.ServiceAccount{}, problem
	}
	named.Namespace = cmp.Or(named.Namespace, a.owner.Namespace)
	return named, ""
}

// recorded returns the service account that a revision records, or why the revision cannot be
// reconciled as that. Without a name it is the controllers' own.
func (a accountRules) recorded(account string) (named v1alpha1.ServiceAccount, problem string) {
	if account == rev.ControllersAccount {
		if allowed, because := a.mayActAsControllers(); !allowed {
			return named, "it was reconciled with the controllers' permissions, " + because
		}
		return named, ""
	}
	namespace, name, err := serviceaccount.SplitUsername(account)
	switch {
	case err != nil:
		return named, fmt.Sprintf("its account %q is not a service account", account)
	case a.owner.Namespace != "" && namespace != a.owner.Namespace:
		return named, fmt.Sprintf("its service account is in namespace %s, and the definition in namespace %s", namespace, a.owner.Namespace)
	}
	return v1alpha1.ServiceAccount{Namespace: namespace, Name: name}, ""
}

// recordedBy is how a revision would record the account of an accepted spec; a value that is no
// account if that is invalid.
func (a accountRules) recordedBy(spec *v1alpha1.DefinitionSpec) string {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if s := spec.ServiceAccount; s != nil {
		o.Object["spec"] = map[string]any{"serviceAccount": map[string]any{"namespace": s.Namespace, "name": s.Name}}
	}
	named, problem := a.specified(o)
	switch {
	case problem != "":
		return "invalid"
	case named.Name == "":
		return rev.ControllersAccount
	}
	return serviceaccount.MakeUsername(named.Namespace, named.Name)
}

func (v *session) accountRules() accountRules {
	return accountRules{owner: v.owner, required: v.RequireServiceAccount, oneUser: v.OneUser}
}

// resolveAccount sets the account that the definition names. There is none while the name is invalid; revisions are
// then reconciled as the accounts that they record.
func (v *session) resolveAccount() {
	named, problem := v.accountRules().specified(v.Unstructured)
	if problem == "" {
		var err error
		if v.account, err = v.As(named); err == nil {
			return
		}
		problem = err.Error()
	}
	v.result.problems.Addf("spec.serviceAccount", "%s", problem)
}

// accountFor returns the account that reconciles the instances of a revision: the one that the revision records. For
// a revision of an earlier release, and for a definition without revisions (number 0), it is the one that the
// definition names; for the spec that its kind was last published for, the one that was named then. problem says why
// there is none.
func (v *session) accountFor(number int64) (account Account, problem string) {
	if number == 0 && v.servesPublished {
		return v.recordedAccount(v.memory.compiled.publishedAccount)
	}
	one := revision.FindNumber(v.history.revisions, number)
	if one == nil && number != 0 && v.memory.composers != nil {
		if account, composes := v.memory.composers.accounts[number]; composes {
			return *account, "" // the revision is deleted and still composes instances
		}
	}
	if one == nil || one.Spec.Account == "" {
		if v.account.Cluster == nil {
			return Account{}, "spec.serviceAccount is invalid"
		}
		return v.account, ""
	}
	if v.restored && one.Spec.Account != v.account.recorded() {
		return Account{}, fmt.Sprintf("its account is %s, and the definition, which was created again, names another", one.Spec.Account)
	}
	return v.recordedAccount(one.Spec.Account)
}

func (v *session) recordedAccount(recorded string) (account Account, problem string) {
	named, problem := v.accountRules().recorded(recorded)
	if problem != "" {
		return Account{}, problem
	}
	account, err := v.As(named)
	if err != nil {
		return Account{}, err.Error()
	}
	return account, ""
}

// requestProblem says why a definition or an instance cannot request a revision because of its
// account: a request must not select another account than the definition names, which the
// admission policy checks, or than serves already.
func (v *session) requestProblem(number int64) (problem string) {
	requested, problem := v.accountFor(number)
	if problem != "" || v.account.Cluster != nil && requested.User == v.account.User {
		return problem
	}
	for _, n := range revision.StateOf(v.status).Revisions() {
		if serving, problem := v.accountFor(n); problem == "" && serving.User == requested.User {
			return ""
		}
	}
	return fmt.Sprintf("it is reconciled as %s; name that in spec.serviceAccount to use it", requested.recorded())
}

// fallbackAccount is the account that deletes instances that no graph composes: the one that
// the definition names or, while that is invalid, the one of the serving revision, or of the
// newest one if the status is lost. Its Cluster is nil if there is none.
func (v *session) fallbackAccount() Account {
	switch newest := revision.Newest(v.history.revisions); {
	case v.account.Cluster != nil:
		return v.account
	case v.status.ServingRevision != 0:
		account, _ := v.accountFor(v.status.ServingRevision)
		return account
	case newest != nil:
		account, _ := v.accountFor(newest.Spec.Revision)
		return account
	}
	return Account{}
}

var serviceAccountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}

// missingAccounts says, by user, which of the accounts have no ServiceAccount, and watches them. While one is not
// read, pending is the state of its watch. One that the controllers are not allowed to read counts as existing: the
// permissions of its name apply anyway.
func (v *session) missingAccounts(accounts map[int64]*Account) (missing map[string]string, pending *watch.State) {
	missing = map[string]string{}
	for user, account := range distinctAccounts(accounts) {
		if user == "" {
			continue
		}
		o, state := v.lease.Object(serviceAccountKind, account.Named.Namespace, account.Named.Name)
		switch {
		case o != nil:
		case state.Reason == watch.LimitExceeded:
			pending = &state
		case state.Phase == watch.Unavailable:
		case state.Phase == watch.Synced:
			missing[user] = missingAccountMessage(v.Key, account.Named)
		case pending == nil:
			pending = &state
		}
	}
	return missing, pending
}

func missingAccountMessage(key object.Key, named v1alpha1.ServiceAccount) string {
	return fmt.Sprintf("service account %s does not exist in namespace %s; create it with 'kubectl create serviceaccount %s --namespace %s', and grant its permissions with 'espalier rbac %s | kubectl apply -f -'",
		named.Name, named.Namespace, named.Name, named.Namespace, commandArguments(key))
}
