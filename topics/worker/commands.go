package worker

// Commands are cut from the other events: a window of them alone, as soon as there
// are any (ask), so that where the others are cut does not depend on them.

// maxCommands bounds the commands of one window.
const maxCommands = 1024
