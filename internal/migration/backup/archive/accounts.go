package archive

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
)

// Account is an account whose permissions definitions or revisions of an archive use.
type Account struct {
	// Namespace and Name are those of the service account; both are empty for the controllers'
	// own permissions.
	Namespace, Name string
	// Of are the definitions that name it, and the revisions that record it.
	Of []object.Key
	// Chosen are the revisions among them that record another account than the definition names
	// in the archive.
	Chosen []object.Key
	// NeedsUse reports whether the verb "use" is required for it: not for the default account of
	// the namespace of a ResourceGroup, as in the admission policy.
	NeedsUse bool
}

// String returns the account as --allow-account takes it.
func (a Account) String() string {
	if a.Name == "" {
		return rev.ControllersAccount
	}
	return a.Namespace + "/" + a.Name
}

// userPrefix begins the user names of service accounts.
const userPrefix = "system:serviceaccount:"

// Accounts returns the accounts that the archive's definitions name and its revisions record,
// sorted. A revision is reconciled with the permissions of the account that it records, and the
// admission policy for accounts checks definitions only. So problems lists the revisions with
// an account that no definition could have named.
func (f File) Accounts() (accounts []Account, problems []string) {
	found := map[string]*Account{}
	add := func(namespace, name string, of object.Key, definition object.Key, chosen bool) {
		a := Account{Namespace: namespace, Name: name}
		if found[a.String()] == nil {
			found[a.String()] = &a
		}
		in := found[a.String()]
		in.Of = append(in.Of, of)
		in.NeedsUse = in.NeedsUse || name != "" && (definition.Namespace != namespace || name != rbac.DefaultServiceAccount)
		if chosen {
			in.Chosen = append(in.Chosen, of)
		}
	}
	named := map[object.Key]string{}
	for _, d := range f.Sections[Definitions] {
		if d.GroupVersionKind().GroupKind() == compositeDefinitionKind {
			continue // composites have no accounts
		}
		namespace, name := accountOf(d)
		named[object.KeyOf(d)] = Account{Namespace: namespace, Name: name}.String()
		add(namespace, name, object.KeyOf(d), object.KeyOf(d), false)
	}
	for _, r := range f.Sections[Revisions] {
		if r.GroupVersionKind().GroupKind() != graphRevisionKind {
			continue
		}
		text, _, _ := unstructured.NestedString(r.Object, "spec", "account")
		of := DefinitionOf(r)
		namespace, name, ok := parseAccount(text)
		switch {
		case text == "": // of an earlier release: the definition's applies
		case !ok:
			problems = append(problems, fmt.Sprintf("%s records the account %s, which is not a service account", object.KeyOf(r), quote(text)))
		case of.Namespace != "" && namespace != of.Namespace:
			problems = append(problems, fmt.Sprintf("%s records the account %s, and %s can only use service accounts of its namespace", object.KeyOf(r),
				quote(text), of))
		default:
			add(namespace, name, object.KeyOf(r), of, named[of] != Account{Namespace: namespace, Name: name}.String())
		}
	}
	for _, a := range found {
		accounts = append(accounts, *a)
	}
	slices.SortFunc(accounts, func(a, b Account) int { return cmp.Compare(a.String(), b.String()) })
	return accounts, problems
}

// accountOf returns the service account that a definition names; empty for the controllers.
func accountOf(definition *unstructured.Unstructured) (namespace, name string) {
	namespace, _, _ = unstructured.NestedString(definition.Object, "spec", "serviceAccount", "namespace")
	name, _, _ = unstructured.NestedString(definition.Object, "spec", "serviceAccount", "name")
	own := definition.GetNamespace()
	switch {
	case name == "" && own == "":
		return "", ""
	case name == "":
		return own, rbac.DefaultServiceAccount
	}
	return cmp.Or(namespace, own), name
}

// parseAccount reads an account as a revision records it.
func parseAccount(text string) (namespace, name string, ok bool) {
	if text == rev.ControllersAccount {
		return "", "", true
	}
	user, found := strings.CutPrefix(text, userPrefix)
	namespace, name, cut := strings.Cut(user, ":")
	key := object.Key{Kind: "ServiceAccount", Namespace: namespace, Name: name}
	return namespace, name, found && cut && namespace != "" && nameProblem(key) == ""
}

// AccountProblems returns the revisions with an account that their definition does not name in
// the archive, and that the person who imports has not allowed.
func AccountProblems(accounts []Account, allowed []string) []string {
	var out []string
	for _, a := range accounts {
		if slices.Contains(allowed, a.String()) {
			continue
		}
		for _, key := range a.Chosen {
			out = append(out, fmt.Sprintf("%s would be reconciled with the permissions of %s, which its definition in the export does not name: allow that with --allow-account %s if you trust the export", key, a.describe(), a))
		}
	}
	return out
}

func (a Account) describe() string {
	if a.Name == "" {
		return "the controllers"
	}
	return fmt.Sprintf("service account %s of namespace %s", a.Name, a.Namespace)
}

// Describe is a line of a plan.
func (a Account) Describe() string {
	var of []string
	for _, key := range a.Of {
		of = append(of, key.String())
	}
	return fmt.Sprintf("%s: %s", a.describe(), strings.Join(of, ", "))
}
