// Command deploy checks what gvbll is deployed with, without a cluster or a container
// engine. It lints and renders the Helm chart with its values files, decodes every
// manifest strictly into the Kubernetes API's types, and loads docker-compose.yml with
// compose's own library.
//
// Usage:
//
//	deploy ROOT
//
// where ROOT is the project's root directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	machinery "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	admission "k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploy ROOT")
		os.Exit(2)
	}
	root := os.Args[1]
	if err := errors.Join(checkChart(root), checkCompose(root)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkChart checks the Helm chart with each of its values files.
func checkChart(root string) error {
	dir := filepath.Join(root, "charts/gvbll")
	c, err := loader.Load(dir)
	if err != nil {
		return err
	}
	flags, err := flagsOf(root, "work", "topics")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "ci/*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no values files: %w", err)
	}
	var errs []error
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return err
		}
		manifests, err := render(c, values)
		if err == nil {
			err = check(manifests, flags)
		}
		if lint := action.NewLint().Run([]string{dir}, values); len(lint.Errors) > 0 {
			err = errors.Join(err, errors.Join(lint.Errors...))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
		fmt.Printf("%s: %d manifests\n", filepath.Base(file), len(manifests))
	}
	if lint := action.NewLint().Run([]string{dir}, nil); len(lint.Errors) > 0 { // as a newcomer runs it
		errs = append(errs, fmt.Errorf("without values: %w", errors.Join(lint.Errors...)))
	}
	return errors.Join(append(errs, checkRefused(c))...)
}

// refused are values that the chart must refuse, and what the error must name.
var refused = []struct{ values, want string }{
	{`{image: {repository: r, tag: "1"}, model: {volume: {emptyDir: {}}}}`, "kafka.brokers"},
	{`{image: {repository: r, tag: "1"}, kafka: {brokers: ["kafka:9092"]}, http: {anonymous: true}}`, "model.volume"},
	{`kafka: {brokers: ["kafka:9092"], brkers: 1}`, "brkers"},
	{`kafka: {brokers: ["kafka"]}`, "brokers"},
	{`replicas: 0`, "replicas"},
	{`autoscaling: {enabled: true}`, "autoscaling"}, // one worker owns the graph: more are no faster
	{`{image: {repository: r, tag: "1"}, kafka: {brokers: ["k:1"]}, model: {volume: {emptyDir: {}}}}`, "http.configSecret"},
	{`networkPolicy: {from: []}`, "from"},
	{`networkPolicy: {egress: {}}`, "egress"},
	{`settings: {state-dir: /elsewhere}`, "state-dir"},
	{`settings: {windwo: 20}`, "windwo"},
	{`settings: {window: abc}`, "/settings/window"},
	{`settings: {linger: 20}`, "/settings/linger"},
	{`{image: {repository: r}, kafka: {brokers: ["k:1"]}}`, "image.tag is required"},
	{`{image: {tag: "1"}, kafka: {brokers: ["k:1"]}}`, "image.repository is required"},
	{`{image: {repository: r, tag: "1"}, kafka: {brokers: ["k:1"], sasl: {mechanism: plain, user: u}}, model: {volume: {emptyDir: {}}}}`, "passwordSecret"},
}

// checkRefused checks that bad values are refused.
func checkRefused(c *chart.Chart) error {
	var errs []error
	for _, r := range refused {
		values, err := chartutil.ReadValues([]byte(r.values))
		if err != nil {
			return err
		}
		if _, err := render(c, values); err == nil || !strings.Contains(err.Error(), r.want) {
			errs = append(errs, fmt.Errorf("values %s: the error is %v, it should name %s", r.values, err, r.want))
		}
	}
	return errors.Join(errs...)
}

// render returns the manifests, by the names of their template and of their place in it.
func render(c *chart.Chart, values chartutil.Values) (map[string]string, error) {
	release := chartutil.ReleaseOptions{Name: "papers", Namespace: "ml", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	out, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	manifests := make(map[string]string)
	for name, text := range out {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		for part, manifest := range releaseutil.SplitManifests(text) {
			manifests[name+"/"+part] = manifest
		}
	}
	return manifests, nil
}

// decoder decodes manifests into the API's types, and refuses fields that these lack.
var decoder = func() runtime.Decoder {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, core.AddToScheme, network.AddToScheme,
		policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(types); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
}()

// check decodes every manifest into its type, checks pods, and checks that selectors
// select the workers and nothing else.
func check(manifests map[string]string, flags map[string][]string) error {
	var errs []error
	var workers, others []*core.PodTemplateSpec
	var selectors []labels.Selector
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		object, _, err := decoder.Decode([]byte(manifests[name]), nil, nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		switch o := object.(type) {
		case *apps.StatefulSet:
			workers = append(workers, &o.Spec.Template)
			selectors = append(selectors, labels.SelectorFromSet(o.Spec.Selector.MatchLabels))
			errs = append(errs, checkPod(&o.Spec.Template.Spec, o.Spec.VolumeClaimTemplates, flags),
				restricted(&o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec))
		case *core.Pod:
			others = append(others, &core.PodTemplateSpec{ObjectMeta: o.ObjectMeta})
			errs = append(errs, checkPod(&o.Spec, nil, flags), restricted(&o.ObjectMeta, &o.Spec))
		case *core.Service:
			selectors = append(selectors, labels.SelectorFromSet(o.Spec.Selector))
		case *network.NetworkPolicy:
			selectors = append(selectors, labels.SelectorFromSet(o.Spec.PodSelector.MatchLabels))
		case *policy.PodDisruptionBudget:
			selectors = append(selectors, labels.SelectorFromSet(o.Spec.Selector.MatchLabels))
		}
	}
	if len(workers) != 1 {
		errs = append(errs, fmt.Errorf("%d stateful sets, want the one of the workers", len(workers)))
	}
	for _, s := range selectors {
		for _, w := range workers {
			if !s.Matches(labels.Set(w.Labels)) {
				errs = append(errs, fmt.Errorf("%s does not select the workers", s))
			}
		}
		for _, p := range others {
			if s.Matches(labels.Set(p.Labels)) {
				errs = append(errs, fmt.Errorf("%s selects %s, which is no worker", s, p.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// evaluator is what a cluster admits pods by.
var evaluator = func() podsecurity.Evaluator {
	e, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		panic(err)
	}
	return e
}()

// restricted returns an error unless a namespace with the Pod Security Standard "restricted" takes the pod.
func restricted(meta *machinery.ObjectMeta, p *core.PodSpec) error {
	level := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	if r := podsecurity.AggregateCheckResults(evaluator.EvaluatePod(level, meta, p)); !r.Allowed {
		return fmt.Errorf("not of the Pod Security Standard \"restricted\": %s (%s)", r.ForbiddenReason(), r.ForbiddenDetail())
	}
	return nil
}

// checkPod checks a pod for faults that the API's types allow: what a cluster refuses,
// what is not safe, and flags and settings that gvbll does not have.
func checkPod(p *core.PodSpec, claims []core.PersistentVolumeClaim, flags map[string][]string) error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	volumes := make(map[string]bool)
	for _, v := range p.Volumes {
		volumes[v.Name] = false
		if s := v.Secret; s != nil && v.Name != "model" && (s.DefaultMode == nil || *s.DefaultMode != 0o440) {
			complain("secret %s may be read by others, or not by the worker's group", v.Name)
		}
	}
	for _, c := range claims {
		volumes[c.Name] = false
	}
	if s := p.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		complain("a pod may run as root")
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
			complain("container %s may write its root or gain privileges", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if _, there := volumes[m.Name]; !there {
				complain("container %s mounts volume %s, which is not there", c.Name, m.Name)
			}
			volumes[m.Name] = true
		}
		// The worker's settings are variables; another container has flags, as topics --create.
		for _, arg := range c.Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if strings.HasPrefix(arg, "--") && !slices.Contains(flags[c.Args[0]], name) {
				complain("container %s has the flag --%s, but gvbll %s has none", c.Name, name, c.Args[0])
			}
		}
		names := make(map[string]bool)
		for _, e := range c.Env {
			if names[e.Name] {
				complain("container %s sets %s twice", c.Name, e.Name)
			}
			names[e.Name] = true
			if strings.Contains(e.Value, "e+") {
				complain("container %s sets %s to %s, a number that YAML has put in exponent form", c.Name, e.Name, e.Value)
			}
			flag, ours := strings.CutPrefix(e.Name, "GVBLL_")
			if flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-")); ours && !slices.Contains(flags["work"], flag) {
				complain("container %s sets %s, but gvbll work has no flag --%s", c.Name, e.Name, flag)
			}
		}
	}
	for name, used := range volumes {
		if !used {
			complain("volume %s is not mounted", name)
		}
	}
	return errors.Join(errs...)
}

// flagsOf returns the names of the flags of gvbll's commands.
func flagsOf(root string, commands ...string) (map[string][]string, error) {
	flags := make(map[string][]string)
	for _, name := range commands {
		cmd := exec.Command("go", "run", "./cmd/gvbll", name, "--help")
		cmd.Dir, cmd.Stderr = root, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		for _, word := range strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune(" ,=\n", r) }) {
			if flag, ok := strings.CutPrefix(word, "--"); ok {
				flags[name] = append(flags[name], strings.TrimPrefix(flag, "[no-]"))
			}
		}
	}
	return flags, nil
}

// checkCompose checks docker-compose.yml.
func checkCompose(root string) error {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")},
		cli.WithWorkingDirectory(root), cli.WithResolvedPaths(true), cli.WithEnv([]string{"GRAFANA_PASSWORD=a-password"}))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	var errs []error
	for name, s := range project.Services {
		if _, tag, _ := strings.Cut(filepath.Base(s.Image), ":"); s.Build == nil && (tag == "" || tag == "latest") {
			errs = append(errs, fmt.Errorf("service %s: image %s is not pinned", name, s.Image))
		}
		if password := s.Environment["GF_SECURITY_ADMIN_PASSWORD"]; strings.HasPrefix(s.Image, "grafana/") &&
			(password == nil || *password != "a-password" || s.Environment["GF_AUTH_ANONYMOUS_ENABLED"] != nil) {
			errs = append(errs, fmt.Errorf("service %s: whoever reaches it may look at it without the password of GRAFANA_PASSWORD", name))
		}
		for _, p := range s.Ports {
			if p.Published != "" && p.HostIP != "127.0.0.1" {
				errs = append(errs, fmt.Errorf("service %s: port %s is open to other machines", name, p.Published))
			}
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				if _, err := os.Stat(v.Source); err != nil {
					errs = append(errs, fmt.Errorf("service %s: %w", name, err))
				}
			}
		}
	}
	fmt.Printf("docker-compose.yml: %d services\n", len(project.Services))
	return errors.Join(errs...)
}
