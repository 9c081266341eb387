package rbac

import (
	"errors"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// ControllersRole is the name of the roles, and of their bindings, that let the controllers
// do what they do in every cluster.
const ControllersRole = "espalier-controllers"

// Grant is what somebody needs, as the objects that grant it.
type Grant struct {
	// Name is that of all the objects.
	Name  string
	Needs []Need
	// To is who needs it. While that isn't known there are roles without bindings.
	To []rbacv1.Subject
}

// Objects are a ClusterRole for what is needed in all namespaces, and a Role for what is
// needed in one, each with its binding.
func (g Grant) Objects() []any {
	var out []any
	for _, scope := range Scopes(g.Needs) {
		meta := metav1.ObjectMeta{Namespace: scope.Namespace, Name: g.Name}
		kind := func(name string) metav1.TypeMeta {
			if scope.Namespace == "" {
				name = "Cluster" + name
			}
			return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
		}
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind("Role").Kind, Name: g.Name}
		rules := Rules(scope.Needs)
		if scope.Namespace == "" {
			out = append(out, &rbacv1.ClusterRole{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules})
		} else {
			out = append(out, &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules})
		}
		switch {
		case len(g.To) == 0:
		case scope.Namespace == "":
			out = append(out, &rbacv1.ClusterRoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, RoleRef: role, Subjects: g.To})
		default:
			out = append(out, &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, RoleRef: role, Subjects: g.To})
		}
	}
	return out
}

// Account is a service account as the subject of a binding.
func Account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// ParseAccount reads a service account, written NAMESPACE:NAME as kubectl has it.
func ParseAccount(text string) (rbacv1.Subject, error) {
	namespace, name, ok := strings.Cut(text, ":")
	if !ok || namespace == "" || name == "" || strings.Contains(name, ":") {
		return rbacv1.Subject{}, errors.New("must be NAMESPACE:NAME")
	}
	return Account(namespace, name), nil
}

// User is somebody as the subject of a binding, by the name that the API server knows him
// under.
func User(name string) rbacv1.Subject {
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		return Account(namespace, account)
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// Argument names a subject to 'espalier rbac'.
func Argument(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return "--serviceaccount " + s.Namespace + ":" + s.Name
	}
	return "--user " + s.Name
}

// RoleOf is the name of the roles for the instances of a definition.
func RoleOf(namespace, name string) string { return qualified("espalier", namespace, name) }

// ControllersRoleOf is the name of the roles by which the controllers let another account
// look after the instances of a definition.
func ControllersRoleOf(namespace, name string) string {
	return qualified(ControllersRole, namespace, name)
}

func qualified(prefix, namespace, name string) string {
	if namespace != "" {
		prefix += ":" + namespace
	}
	return prefix + ":" + name
}
