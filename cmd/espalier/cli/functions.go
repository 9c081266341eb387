package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
)

// functionFlags configure how functions are served and called.
type functionFlags struct {
	given        []string
	certificates string
	secret       string
	preferBuilt  string
	development  bool
	environment  []string
}

func (f *functionFlags) add(cmd *cobra.Command, development bool) {
	flags := cmd.Flags()
	flags.BoolVar(&f.development, "functions-development", development,
		"let the annotations of a Function name a port of the loopback interface that serves it without TLS, if the function is neither installed nor built in")
	flags.StringArrayVar(&f.environment, "function-env", nil,
		"an environment variable of the programs of functions, which get no others: NAME=VALUE, or NAME for the value that it has here; repeatable")
	flags.StringArrayVar(&f.given, "function", nil,
		"how a function is served, instead of what the cluster says: NAME=./program runs a program, NAME=HOST:PORT calls an address on this machine; repeatable")
	flags.StringVar(&f.certificates, "function-certificates", "", "the directory with ca.crt, tls.crt and tls.key for calls of packaged functions")
	flags.StringVar(&f.preferBuilt, "functions-prefer-builtin", string(packages.PreferBuiltInAuto),
		"whether built-in functions are called instead of packages of the same name: "+
			"true, false, or auto: if there are no certificates to call the package with, and it is the same function")
	flags.Lookup("functions-prefer-builtin").NoOptDefVal = string(packages.PreferBuiltInAlways)
	flags.StringVar(&f.secret, "function-certificates-secret", "", "the Secret with these files, as NAMESPACE/NAME, instead of the directory")
}

// options validates the flags. The programs of functions write to output.
func (f *functionFlags) options(output io.Writer) (packages.Options, error) {
	o := packages.Options{Local: map[string]packages.LocalFunction{}, PreferBuiltIn: packages.PreferBuiltIn(f.preferBuilt), AllowDevelopment: f.development}
	switch o.PreferBuiltIn {
	case "", packages.PreferBuiltInAuto, packages.PreferBuiltInAlways, packages.PreferBuiltInNever:
	default:
		return o, &usageError{fmt.Errorf("--functions-prefer-builtin must be true, false or auto, not %s", f.preferBuilt)}
	}
	for _, text := range f.given {
		name, given, err := parseFunction(text)
		if err != nil {
			return o, &usageError{fmt.Errorf("--function %s: %w", text, err)}
		}
		if _, twice := o.Local[name]; twice {
			return o, &usageError{fmt.Errorf("--function %s: %s is given twice", text, name)}
		}
		o.Local[name] = given
	}
	for _, variable := range f.environment {
		name, _, hasValue := strings.Cut(variable, "=")
		if name == "" {
			return o, &usageError{fmt.Errorf("--function-env must be NAME=VALUE or NAME, not %s", variable)}
		}
		if !hasValue {
			value, set := os.LookupEnv(name)
			if !set {
				continue
			}
			variable = name + "=" + value
		}
		o.Environment = append(o.Environment, variable)
	}
	namespace, name, named := strings.Cut(f.secret, "/")
	switch {
	case f.certificates != "" && f.secret != "":
		return o, &usageError{errors.New("--function-certificates and --function-certificates-secret exclude each other")}
	case f.certificates != "":
		if _, err := pipeline.CertificatesFromDirectory(f.certificates)(); err != nil {
			return o, &usageError{fmt.Errorf("--function-certificates: %w", err)}
		}
		o.Certificates = pipeline.CertificatesFromDirectory(f.certificates)
	case f.secret != "" && (!named || namespace == "" || name == ""):
		return o, &usageError{fmt.Errorf("--function-certificates-secret must be NAMESPACE/NAME, not %s", f.secret)}
	case f.secret != "":
		o.CertificatesSecret = packages.SecretName{Namespace: namespace, Name: name}
	}
	lines := &prefixWriter{to: output}
	o.Output = lines.forProgram
	return o, nil
}

// parseFunction reads NAME=HOST:PORT or NAME=./program.
func parseFunction(text string) (string, packages.LocalFunction, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || value == "" {
		return "", packages.LocalFunction{}, errors.New("must be NAME=HOST:PORT or NAME=./program")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", packages.LocalFunction{}, fmt.Errorf("%q can't be a Function's name: %s", name, problems[0])
	}
	if isAddress(value) {
		if !pipeline.IsLoopback(value) {
			return "", packages.LocalFunction{}, fmt.Errorf("%s is not on this machine, and calls of it are not encrypted. "+
				"Run the program here (--function %s=./program), or forward a port of this machine to it and name that", value, name)
		}
		return name, packages.LocalFunction{Address: value}, nil
	}
	if !strings.ContainsRune(value, filepath.Separator) {
		return "", packages.LocalFunction{}, fmt.Errorf("%s is not HOST:PORT; for a program, give its path: ./%s", value, value)
	}
	path, err := filepath.Abs(value)
	if err != nil {
		return "", packages.LocalFunction{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", packages.LocalFunction{}, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", packages.LocalFunction{}, fmt.Errorf("%s is not a program", path)
	}
	return name, packages.LocalFunction{Program: path}, nil
}

func isAddress(value string) bool {
	if strings.HasPrefix(value, "unix:") {
		return true
	}
	_, port, err := net.SplitHostPort(value)
	return err == nil && port != "" && !strings.ContainsRune(value, filepath.Separator)
}

// prefixWriter merges the output of several programs: whole lines, prefixed with the program's
// name.
type prefixWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (p *prefixWriter) forProgram(name string) io.Writer {
	return &programWriter{prefixWriter: p, name: name}
}

// programWriter is the output of one program.
type programWriter struct {
	*prefixWriter
	name string
	rest []byte // an incomplete line
}

// maxLine is the length in bytes beyond which a line is printed in parts.
const maxLine = 16 << 10

func (p *programWriter) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, data...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 && len(p.rest) < maxLine {
			return len(data), nil
		}
		line := p.rest
		if end >= 0 {
			line = p.rest[:end]
		}
		fmt.Fprintf(p.to, "%s | %s\n", p.name, diag.Printable(string(line)))
		p.rest = p.rest[min(len(line)+1, len(p.rest)):]
	}
}
