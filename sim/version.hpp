// The program's version, which results carry. The build says it; where single sources are built without it,
// as for fuzzing, it is unknown.
#pragma once

#ifndef MOELAB_VERSION
#define MOELAB_VERSION "unknown"
#endif
