package rbac

import (
	"errors"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// ControllersRole is the name of the roles and bindings that the controllers need in every
// cluster.
const ControllersRole = "espalier-controllers"

// AggregateToControllersLabel is the label, with the value "true", of ClusterRoles whose rules the cluster adds to those of the
// controllers, in an installation by the chart.
const AggregateToControllersLabel = "rbac.espalier.dev/aggregate-to-controllers"

// Grant is a set of permissions, rendered as the roles and bindings that grant it.
type Grant struct {
	// Name is the name of all these objects.
	Name        string
	Permissions []Permission
	// Subjects are the subjects. If empty, there are roles without bindings.
	Subjects []rbacv1.Subject
}

// Objects returns a ClusterRole for the permissions in all namespaces, and a Role for those
// in each single namespace, with their bindings.
func (g Grant) Objects() []any {
	var out []any
	for _, scope := range Scopes(g.Permissions) {
		meta := metav1.ObjectMeta{Namespace: scope.Namespace, Name: g.Name}
		kind := func(name string) metav1.TypeMeta {
			if scope.Namespace == "" {
				name = "Cluster" + name
			}
			return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
		}
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind("Role").Kind, Name: g.Name}
		rules := Rules(scope.Permissions)
		if scope.Namespace == "" {
			out = append(out, &rbacv1.ClusterRole{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules})
		} else {
			out = append(out, &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules})
		}
		switch {
		case len(g.Subjects) == 0:
		case scope.Namespace == "":
			out = append(out, &rbacv1.ClusterRoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, RoleRef: role, Subjects: g.Subjects})
		default:
			out = append(out, &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, RoleRef: role, Subjects: g.Subjects})
		}
	}
	return out
}

// ServiceAccount is a service account as the subject of a binding.
func ServiceAccount(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// ParseServiceAccount parses NAMESPACE:NAME, the form that kubectl uses.
func ParseServiceAccount(text string) (rbacv1.Subject, error) {
	namespace, name, ok := strings.Cut(text, ":")
	if !ok || namespace == "" || name == "" || strings.Contains(name, ":") {
		return rbacv1.Subject{}, errors.New("must be NAMESPACE:NAME")
	}
	return ServiceAccount(namespace, name), nil
}

// UserSubject is a user as the subject of a binding, given the username that the API server
// reports. A service account's username gives the service account.
func UserSubject(name string) rbacv1.Subject {
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		return ServiceAccount(namespace, account)
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// SubjectFlag is the flag of 'espalier rbac' that names a subject.
func SubjectFlag(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return "--serviceaccount " + s.Namespace + ":" + s.Name
	}
	return "--user " + s.Name
}

// RoleName is the name of the roles for the instances of a definition.
func RoleName(namespace, name string) string { return qualified("espalier", namespace, name) }

// ControllersRoleName is the name of the roles that the controllers need where another
// account reconciles the instances of a definition.
func ControllersRoleName(namespace, name string) string {
	return qualified(ControllersRole, namespace, name)
}

func qualified(prefix, namespace, name string) string {
	if namespace != "" {
		prefix += ":" + namespace
	}
	return prefix + ":" + name
}
