package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is one worker.
type process struct {
	cmd *exec.Cmd
	// point is the crash point at which the worker kills itself, as NAME:N for the N-th
	// time that it passes the point; empty for none.
	point string
	log   *os.File

	ended chan struct{} // closed when the process has ended
	err   error         // how it ended, valid once ended is closed
	at    time.Time     // when it ended, likewise
}

// start starts a worker whose checkpoints and log have the given name. It kills itself
// at the point crash, if that is not empty.
func (g *graph) start(name, crash string, args ...string) *process {
	return g.run(g.setup.Program, name, crash, append([]string{
		"work", "--brokers", strings.Join(g.setup.Brokers, ","), "--prefix", g.prefix, "--model", g.setup.Model, "--http", g.http,
		"--session-timeout", session.String(), "--state-dir", filepath.Join(g.dir, name), "--create-topics", fmt.Sprint(partitions),
	}, slices.Concat(args, g.setup.shadowFlag(), g.setup.Flags)...)...)
}

// run starts a program with these arguments, likewise.
func (g *graph) run(program, name, crash string, args ...string) *process {
	log := need(os.OpenFile(filepath.Join(g.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))
	fmt.Fprintf(log, "--- %s GVBLL_CRASH=%s gvbll %s\n", time.Now().Format(time.TimeOnly), crash, strings.Join(args, " "))
	p := &process{cmd: exec.Command(program, args...), point: crash, log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "GVBLL_CRASH="+crash)
	g.mu.Lock()
	defer g.mu.Unlock()
	must(p.cmd.Start())
	g.started = append(g.started, p)
	go func() {
		p.err = p.cmd.Wait()
		p.at = time.Now()
		fmt.Fprintf(log, "--- %s %v\n", p.at.Format(time.TimeOnly), p.err)
		log.Close()
		close(p.ended)
	}()
	return p
}

// signal sends a signal. The process may have ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill kills the process, unless it has ended, and waits for its end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// endedBy reports whether a signal ended the process.
func (p *process) endedBy(signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// killed reports whether SIGKILL ended the process.
func (p *process) killed() bool { return p.endedBy(syscall.SIGKILL) }

// interrupted reports whether SIGTERM ended the worker during its start. After the start
// SIGTERM ends a worker without an error.
func (p *process) interrupted() bool {
	return p.endedBy(syscall.SIGTERM) || p.logged("gvbll: interrupted")
}

// takenOver reports whether the worker ended because another one had taken over, which
// is right if several workers run.
func (p *process) takenOver() bool { return p.logged("has taken over this graph") }

// logged reports whether the end of the log contains a text.
func (p *process) logged(text string) bool { return strings.Contains(p.logEnd(), text) }

// lastLine returns the program's last line in the log, and what follows it.
func (p *process) lastLine() string {
	log := p.logEnd()
	return strings.TrimSpace(log[max(strings.LastIndex(log, "\ngvbll: "), 0):])
}

// logEnd returns the end of the log, "" if it cannot be read.
func (p *process) logEnd() string {
	f, err := os.Open(p.log.Name())
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(info.Size()-2000, 0), io.SeekStart)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(b)
}

// await waits until the process ends, for a limited time.
func (p *process) await(ctx context.Context) {
	select {
	case <-p.ended:
	case <-time.After(drainTimeout):
		fail("the worker did not end, see %s", p.log.Name())
	case <-ctx.Done():
		must(ctx.Err())
	}
}

// stop ends a worker with SIGTERM, as an operator does, and waits up to a minute for it.
func (p *process) stop() error {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(time.Minute):
		p.signal(syscall.SIGQUIT) // writes its goroutines to the log
		<-p.ended
		return errors.New("it did not end within a minute of SIGTERM")
	}
}

// peakMB returns the largest resident size that the process has had, in 10⁶ bytes, as Linux
// counts it.
func (p *process) peakMB() (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		return 0, fmt.Errorf("the peak of memory of process %d: %w", p.cmd.Process.Pid, err)
	}
	return kb * 1024 / 1e6, nil
}
