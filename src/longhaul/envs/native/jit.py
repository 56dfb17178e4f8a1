"""The former place of `core.native`."""

from longhaul.core.native import (
    CLOCK as CLOCK,
)
from longhaul.core.native import (
    HAS_PAUSE as HAS_PAUSE,
)
from longhaul.core.native import (
    ORDER as ORDER,
)
from longhaul.core.native import (
    OWN_FILE as OWN_FILE,
)
from longhaul.core.native import (
    WORD as WORD,
)
from longhaul.core.native import (
    WORD_BYTES as WORD_BYTES,
)
from longhaul.core.native import (
    F as F,
)
from longhaul.core.native import (
    add as add,
)
from longhaul.core.native import (
    call as call,
)
from longhaul.core.native import (
    clock_gettime as clock_gettime,
)
from longhaul.core.native import (
    cond_init as cond_init,
)
from longhaul.core.native import (
    cond_wait as cond_wait,
)
from longhaul.core.native import (
    cond_wake as cond_wake,
)
from longhaul.core.native import (
    entry as entry,
)
from longhaul.core.native import (
    fetch as fetch,
)
from longhaul.core.native import (
    integer as integer,
)
from longhaul.core.native import (
    kernel as kernel,
)
from longhaul.core.native import (
    kernel_stamp as kernel_stamp,
)
from longhaul.core.native import (
    load as load,
)
from longhaul.core.native import (
    look as look,
)
from longhaul.core.native import (
    mutex_init as mutex_init,
)
from longhaul.core.native import (
    mutex_lock as mutex_lock,
)
from longhaul.core.native import (
    mutex_unlock as mutex_unlock,
)
from longhaul.core.native import (
    pause as pause,
)
from longhaul.core.native import (
    store as store,
)
from longhaul.core.native import (
    words_of as words_of,
)
